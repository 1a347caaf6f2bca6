"""Grows a file, cuts it, and grows it again: what is cut off no longer counts."""

with open("file.bin", "wb", buffering=0) as file:
    for _ in range(40):
        file.write(bytes(1 << 20))
        file.truncate(0)
        file.seek(0)
    file.write(bytes(1 << 20))
    print(file.tell())
