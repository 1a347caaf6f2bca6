# aim = "answer"
# tries = "Changes the host's working directory and removes it."
# never = []
# control = "the control's answer needs no working directory"
import os

os.mkdir("gone")
os.chdir("gone")
os.rmdir("../gone")
