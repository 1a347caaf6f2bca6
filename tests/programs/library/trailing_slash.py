"""A directory may be named with a slash at its end."""

import os
import shutil

os.mkdir("q/")
os.rmdir("q/")
os.makedirs("r/a/b/")
os.rmdir("r/a/b//")
shutil.rmtree("r/")
open("file", "w").close()
try:
    os.rmdir("file/")
except NotADirectoryError:
    print("not a directory")
print(os.listdir("."))

# expect stdout: "not a directory\n['file']\n"
