# aim = "output"
# tries = "Leaves files with the longest names there are, in deep directories."
# control = "the control lists 50 files of each directory"
import os

for i in range(500):
    directory = "/".join(c * 200 for c in "abcdefghij")
    os.makedirs(directory, exist_ok=True)
    open(f"{directory}/{i:0200d}", "w").close()
