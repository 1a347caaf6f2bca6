# aim = "outside"
# tries = "Opens a shelf of somebody else's, which is full of pickles."
import os
import shelve


class Loot:
    def __reduce__(self):
        return os.mkdir, ("@OUTSIDE@/planted",)


with shelve.open("shelf") as shelf:
    shelf["a"] = Loot()
with shelve.open("shelf") as shelf:
    print(shelf["a"])
