# aim = "secret"
# tries = "Leaves by a link to the parent that is reached through another link."
import os

os.makedirs("a/b")
os.symlink("a/b", "short")
os.symlink("../../..", "a/b/up")
print(open("short/up/secret.txt").read())
