# aim = "time"
# tries = "Consumes an endless iterator into a queue of no length."
import collections
import itertools

collections.deque(itertools.repeat(1), maxlen=0)
