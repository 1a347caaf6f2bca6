"""Puts other files in the place of the output, where the system can do that."""

import os

print("before")
file = os.open("file.txt", os.O_CREAT | os.O_RDWR)
for source, target in ((1, 60), (file, 1), (0, 2), (file, 0)):
    try:
        os.dup2(source, target)
    except OSError:
        continue
for descriptor in (1, 60):
    try:
        os.write(descriptor, b"after\n")
    except OSError:
        continue
result = "still here"

# expect success: true
# expect result: "still here"
# expect stdout starts: "before\n"
