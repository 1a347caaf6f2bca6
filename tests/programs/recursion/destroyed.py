"""A chain of a million objects that all go at once."""


class Link:
    def __init__(self, following):
        self.following = following


chain = None
for _ in range(1_000_000):
    chain = Link(chain)
del chain

iterator = iter([1])
for _ in range(1_000_000):
    iterator = map(abs, iterator)
del iterator
print("gone")
