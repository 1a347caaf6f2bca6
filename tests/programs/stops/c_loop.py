"""A loop in C code, with no bytecode in it at which a signal would be looked at."""

import collections
import itertools

print("started")
collections.deque(itertools.repeat(0), maxlen=0)
