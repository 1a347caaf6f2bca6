"""Input files are listed when they were changed, and not otherwise."""

import os

with open("changed.txt", "a") as file:
    file.write(" and more")
with open("same size.txt", "r+") as file:
    file.write("X")
with open("untouched.txt") as file:
    print(file.read())
os.unlink("deleted.txt")
os.rename("before.txt", "after.txt")
with open("rewritten.txt", "w") as file:
    file.write("the same")

# with file changed.txt: "some"
# with file same size.txt: "abc"
# with file untouched.txt: "untouched"
# with file deleted.txt: "going"
# with file before.txt: "moved"
# with file rewritten.txt: "the same"
# with file folder/untouched too.txt: "untouched"
# expect stdout: "untouched\n"
# expect files: ["after.txt", "changed.txt", "rewritten.txt", "same size.txt"]
# expect contents: {"after.txt": "moved", "changed.txt": "some and more", "same size.txt": "Xbc"}
