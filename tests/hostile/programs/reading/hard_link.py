# aim = "secret"
# tries = "Makes a hard link to the file and reads its own name for it."
# control = "the kernel refuses links to other users' files (protected_hardlinks); the copy does not need one"
import os

os.link("@SECRET_FILE@", "mine.txt")
print(open("mine.txt").read())
