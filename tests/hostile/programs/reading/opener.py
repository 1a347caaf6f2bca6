# aim = "secret"
# tries = "Has `open` call an opener that ignores the name it was given."
import os


def opener(name, flags):
    return os.open("@SECRET_FILE@", flags)


print(open("harmless.txt", opener=opener).read())
