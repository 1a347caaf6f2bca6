# aim = "secret"
# tries = "Runs the program on a terminal of its own."
import os
import pty

child, handle = pty.fork()
if child == 0:
    os.execv("/bin/cat", ["cat", "@SECRET_FILE@"])
os.waitpid(child, 0)
print(os.read(handle, 1000))
