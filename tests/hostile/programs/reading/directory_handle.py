# aim = "secret"
# tries = "Opens relative to a descriptor of the parent directory."
import os

parent = os.open("..", os.O_RDONLY)
handle = os.open("secret.txt", os.O_RDONLY, dir_fd=parent)
print(os.read(handle, 1000))
