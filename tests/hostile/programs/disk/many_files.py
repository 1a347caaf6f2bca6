# aim = "disk"
# tries = "Writes many small files, each of which takes a block."
for i in range(40_000):
    with open(f"f{i}", "wb") as file:
        file.write(b"x")
