"""Looks at files in every way that shows more of them than their names and contents."""

import os
import shutil
import sys
import tempfile
import time

for name in ("b", "c", "a"):
    with open(name, "w") as file:
        file.write(name)
os.link("a", "hard")
os.symlink("a", "soft")
os.mkdir("folder")
print([(entry.name, entry.inode(), entry.stat()) for entry in os.scandir(".")])
print([os.stat(path) for path in (".", "folder", "/", "/tmp", "/usr/local/lib")])
print([os.path.samefile("a", other) for other in ("hard", "soft", "b")])

# Numbers are not used again, wherever the host gets its own from.
for _ in range(3):
    with tempfile.TemporaryFile() as file:
        print(os.fstat(file.fileno()).st_size)
    with open("again", "w") as file:
        print(os.fstat(file.fileno()).st_ino)
    os.unlink("again")
os.rename("c", "b")
print(os.stat("b").st_ino)

# Times that were set stay, and others move on with the clock.
os.utime("a", (1000, 2000))
print(os.stat("hard").st_mtime, os.stat("b").st_mtime < os.stat("folder").st_mtime)
before = os.stat("b").st_mtime
time.sleep(5)
with open("b", "a") as file:
    file.write("more")
print(round(os.stat("b").st_mtime - before))

# More names than one call of the system returns, and folders within folders.
for number in range(500):
    with open(f"folder/{number * 7919 % 500}", "w"):
        pass
listed = os.listdir("folder")
print(listed == sorted(listed), len(listed), len(set(listed)))
os.makedirs("x/y/z")
print(list(os.walk("x")), [names for _, _, names in os.walk("folder")] == [listed])
shutil.rmtree("folder")

# Python looks at a directory's time to find out whether it holds new modules.
sys.path.insert(0, "x")
for name in ("first", "second"):
    with open(f"x/{name}.py", "w") as file:
        file.write(f"name = {name!r}\n")
    print(__import__(name).name)
print(sorted(os.listdir(".")))
