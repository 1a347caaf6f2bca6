"""Counts what it can write beside a file that is open a hundred times and has no name."""

import os

with open("same", "wb") as file:
    file.write(bytes(1 << 20))
held = [open("same", "r+b", buffering=0) for _ in range(100)]
os.unlink("same")
for _ in range(120):
    open("small", "w").close()
with open("more", "wb") as file:
    file.write(bytes(6 << 20))
print(os.path.getsize("more") >> 20)
