# aim = "disk"
# tries = "Writes pages far apart in a file, each of which takes a block."
with open("sparse", "wb") as file:
    for i in range(30_000):
        file.seek(i * 4096 * 2)
        file.write(b"x" * 4096)
