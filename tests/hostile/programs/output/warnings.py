# aim = "output"
# tries = "Warns without end."
import warnings

warnings.simplefilter("always")
while True:
    warnings.warn("w" * 10_000)
