"""Many small objects, each holding the last."""

chain = None
while True:
    chain = [chain]
