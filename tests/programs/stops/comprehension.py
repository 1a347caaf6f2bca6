import itertools

print("started")
any(x < 0 for x in itertools.count())
