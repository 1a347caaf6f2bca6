# aim = "secret"
# tries = "Copies the parent directory into the workspace."
import glob
import os
import shutil

os.mkdir("stolen")
for name in glob.glob("../*.txt"):
    shutil.copy(name, "stolen")
print(open("stolen/secret.txt").read())
