# aim = "secret"
# tries = "Leaves a link that leads out, and follows it after the session was put on the disk."
# session = true
# suspend = true
import os

os.symlink("../secret.txt", "later")
os.symlink("@SECRET_FILE@", "absolute")
# --- again
for name in ("absolute", "later"):
    try:
        print(open(name).read())
    except OSError as error:
        print(error)
