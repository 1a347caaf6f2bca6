# aim = "secret"
# tries = "Changes the working directory to the root first."
import os

os.chdir("/")
print(open("@SECRET_FILE@"[1:]).read())
