# aim = "alive"
# tries = "Changes a table while it is searched."
# control = "a bug that was mended; the class stays worth trying"
class Key:
    def __hash__(self):
        return 1

    def __eq__(self, other):
        table.clear()
        table.update({Other(): i for i in range(50)})
        return False


class Other(Key):
    def __eq__(self, other):
        return False


table = {}
for _ in range(300):
    table[Key()] = 1
    table.get(Key())
