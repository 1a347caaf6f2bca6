# aim = "secret"
# tries = "Links to the file from the workspace and reads the link."
import os

os.symlink("@SECRET_FILE@", "notes.txt")
print(open("notes.txt").read())
