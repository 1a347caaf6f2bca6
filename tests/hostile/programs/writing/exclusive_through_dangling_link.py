# aim = "outside"
# tries = "Makes a file at the end of a link to nothing."
import os

os.symlink("@OUTSIDE@/new.txt", "dangling")
os.close(os.open("dangling", os.O_WRONLY | os.O_CREAT, 0o600))
