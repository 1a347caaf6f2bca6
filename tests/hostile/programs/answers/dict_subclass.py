# aim = "answer"
# tries = "Leaves a table whose items change each time they are read."
class Shifting(dict):
    def items(self):
        yield ("a" * 10), self
        yield from ((f"k{i}", Shifting()) for i in range(3))


result = Shifting(a=1)
