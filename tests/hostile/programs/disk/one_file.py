# aim = "disk"
# tries = "Writes one file until there is no room."
with open("big", "wb") as file:
    while True:
        file.write(b"x" * (1 << 20))
