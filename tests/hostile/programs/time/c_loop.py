# aim = "time"
# tries = "Sums an endless iterator inside C, where no bytecode is run."
import itertools

sum(itertools.repeat(1))
