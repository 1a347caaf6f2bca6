# aim = "secret"
# tries = "Hides the way out at the end of a chain of links."
import os

for i in range(20):
    os.symlink(f"link{i + 1}", f"link{i}")
os.symlink("../secret.txt", "link20")
print(open("link0").read())
