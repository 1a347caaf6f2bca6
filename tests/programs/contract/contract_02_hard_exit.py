import os

print("before")
with open("kept.txt", "w") as file:
    file.write("kept")
os._exit(0)

# expect kind: "crash"
# expect stdout: "before\n"
# expect files: ["kept.txt"]
