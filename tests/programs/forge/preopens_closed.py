"""Closes the directories that the host opened."""

import os

print("before")
os.closerange(3, 32)
result = "still here"
try:
    open("file.txt", "w").close()
    print("made")
except OSError:
    print("refused")

# expect stdout: "before\nrefused\n"
# expect result: "still here"
