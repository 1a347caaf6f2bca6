# aim = "secret"
# tries = "Links to the root directory and walks down from there."
import os

os.symlink("/", "root")
print(open("root" + "@SECRET_FILE@").read())
