# aim = "memory"
# tries = "Pads the shorter of two sequences without end."
import itertools

held = list(itertools.zip_longest([1], range(1 << 40)))
