# aim = "memory"
# tries = "Has all products kept in memory at once."
import itertools

held = list(itertools.product(range(100), repeat=4))
