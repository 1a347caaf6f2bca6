# aim = "memory"
# tries = "Catches the failure, and goes on asking for less."
held = []
size = 256 << 20
while size > 1000:
    try:
        held.append(bytearray(b"x") * size)
    except MemoryError:
        size //= 2
