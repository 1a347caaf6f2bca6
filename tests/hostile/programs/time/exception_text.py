# aim = "time"
# tries = "Raises an exception whose text takes for ever."
class Slow(Exception):
    def __str__(self):
        while True:
            pass

    __repr__ = __str__


raise Slow
