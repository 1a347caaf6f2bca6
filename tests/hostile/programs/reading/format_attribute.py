# aim = "secret"
# tries = "Walks to the file's reader by a format string alone."
import linecache


class Account:
    def __init__(self):
        self.balance = 1


linecache.getline("@SECRET_FILE@", 1)
Account.cache = linecache.cache
print("{0.__init__.__globals__[linecache].cache}".format(Account()))
