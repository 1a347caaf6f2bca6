# aim = "secret"
# tries = "Renames the directory below an open handle, then walks up from the handle."
import os

os.makedirs("a/b/c")
handle = os.open("a/b/c", os.O_RDONLY)
os.rename("a/b/c", "c")
print(os.read(os.open("../../secret.txt", os.O_RDONLY, dir_fd=handle), 1000))
