# aim = "secret"
# tries = "Searches the file system for whatever is called secret."
import os

for top in ("..", "/tmp", "@SECRET_FILE@".rpartition("/")[0]):
    for directory, _, names in os.walk(top):
        for name in names:
            if name.startswith("secret"):
                print(open(os.path.join(directory, name), errors="replace").read(1000))
