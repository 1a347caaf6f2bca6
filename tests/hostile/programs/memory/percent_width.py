# aim = "memory"
# tries = "Has the old way of formatting ask for it."
print(len("%*d" % (800 << 20, 1)))
