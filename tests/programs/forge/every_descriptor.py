"""Writes to, and reads from, every descriptor there may be."""

import os

print("before")
for descriptor in range(3, 64):
    for call in (os.write, os.read, os.ftruncate, os.lseek):
        try:
            if call is os.write:
                call(descriptor, b"forged")
            elif call is os.lseek:
                call(descriptor, 0, 0)
            else:
                call(descriptor, 1)
        except OSError:
            continue
result = "still here"

# expect success: true
# expect result: "still here"
# expect stdout: "before\n"
# expect files: []
