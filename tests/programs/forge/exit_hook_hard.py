import atexit
import os

atexit.register(os._exit, 0)
print("before")
with open("kept.txt", "w") as file:
    file.write("kept")
raise ValueError("the truth")

# expect success: false
# expect stdout: "before\n"
# expect files: ["kept.txt"]
