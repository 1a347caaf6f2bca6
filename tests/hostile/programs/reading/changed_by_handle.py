# aim = "secret"
# tries = "Changes the directory by a descriptor."
import os

os.fchdir(os.open("..", os.O_RDONLY))
print(open("secret.txt").read())
