# aim = "time"
# tries = "Raises a number to a power."
print(len(bin(7 ** (7**9))))
