# aim = "memory"
# tries = "Has tabs expanded to a size of its choice."
print(len(("\t" * 1000).expandtabs(900_000)))
