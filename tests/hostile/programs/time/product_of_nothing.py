# aim = "time"
# tries = "Iterates over a product so long that the first item never comes."
import itertools

next(x for x in itertools.product(range(40), repeat=20) if x is None)
