# aim = "alive"
# tries = "Drops a chain of a million objects, whose destruction nests."
# control = "CPython's trashcan holds; a chain of iterators got around it until it was mended"
chain = iter([])
for _ in range(3_000_000):
    chain = map(None, chain) if False else zip(chain)
del chain
item = None
for _ in range(3_000_000):
    item = (item,)
del item
