"""Writes far more in total than it ever keeps: no quota is in the way of that."""

import os

for _ in range(200):
    with open("same.bin", "wb") as file:
        file.write(bytes(1 << 20))
for number in range(3000):
    open(f"short-lived-{number}", "w").close()
    os.unlink(f"short-lived-{number}")
print(os.path.getsize("same.bin"))
