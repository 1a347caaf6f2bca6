# aim = "memory"
# tries = "Sorts all orders of a few things."
import itertools

held = sorted(itertools.permutations(range(11)))
