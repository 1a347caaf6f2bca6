# aim = "memory"
# tries = "Frees between, so that what is left is full of holes."
held = []
while True:
    held.append(bytearray(b"x" * 3_000_000))
    held.append(bytearray(b"x" * 1000))
    if len(held) > 2000:
        del held[::7]
