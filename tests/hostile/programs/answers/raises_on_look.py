# aim = "answer"
# tries = "Leaves a result that raises whatever is done with it."
class Raises:
    def __getattribute__(self, name):
        raise BaseException("no")

    def __repr__(self):
        raise BaseException("no")


result = Raises()
