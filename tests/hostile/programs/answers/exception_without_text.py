# aim = "answer"
# tries = "Raises an exception whose text raises another one."
class Broken(Exception):
    def __str__(self):
        raise Broken

    __repr__ = __str__


raise Broken
