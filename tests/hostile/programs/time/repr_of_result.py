# aim = "time"
# tries = "Is done in time, but its result never ends when it is shown."
class Endless(dict):
    def __iter__(self):
        while True:
            yield "x"

    def items(self):
        while True:
            pass

    __repr__ = __str__ = keys = __len__ = items


result = Endless(a=1)
