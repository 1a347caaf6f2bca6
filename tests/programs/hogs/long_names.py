"""Names that are too long, and names that are odd."""

import os

for name in ("n" * 255, "n" * 256, "n" * 100_000, "d/" * 50_000 + "x"):
    try:
        open(name, "w").close()
        print(len(name), "made")
    except OSError:
        print(len(name), "refused")
for name in ("new\nline", "tab\there", "quo\"te", "back\\slash", "ünïcode", "-rf", " ", ".hidden", "a;b"):
    with open(name, "w") as file:
        file.write(name)
print(len(os.listdir(".")))
