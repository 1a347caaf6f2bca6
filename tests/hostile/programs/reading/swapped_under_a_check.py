# aim = "secret"
# tries = "Puts a link where a directory was between the check and the use."
import os

os.mkdir("box")
open("box/secret.txt", "w").close()
assert os.path.realpath("box/secret.txt").startswith(os.getcwd())
os.unlink("box/secret.txt")
os.rmdir("box")
os.symlink("..", "box")
print(open("box/secret.txt").read())
