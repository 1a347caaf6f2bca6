# aim = "alive"
# tries = "Asks a chain of iterators for one item, each of which asks the next."
chain = iter([1])
for _ in range(300_000):
    chain = filter(None, chain)
next(chain)
