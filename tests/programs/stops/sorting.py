"""Sorts objects whose comparison never answers."""


class Undecided:
    def __lt__(self, other):
        while True:
            pass


print("started")
sorted([Undecided(), Undecided()])
