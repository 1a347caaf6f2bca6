# aim = "memory"
# tries = "Computes a number that fills the memory."
# control = "CPython takes longer than the time for it to get there"
number = 1 << (8 * (700 << 20))
number |= number >> 1
