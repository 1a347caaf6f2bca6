# aim = "memory"
# tries = "Reads one twin of an iterator far ahead of the other."
import itertools

first, second = itertools.tee(bytes(1000) for _ in itertools.count())
for _ in first:
    pass
