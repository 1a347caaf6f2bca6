# aim = "outside"
# tries = "Starts a program by `posix_spawn`, which is neither fork nor exec."
import os

child = os.posix_spawn("/bin/sh", ["sh", "-c", "echo planted > @OUTSIDE@/planted.txt"], {})
os.waitpid(child, 0)
