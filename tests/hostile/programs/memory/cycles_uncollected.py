# aim = "memory"
# tries = "Makes rings of garbage after it has turned the collector off."
import gc

gc.disable()
while True:
    ring = [b"x" * 10_000]
    ring.append(ring)
