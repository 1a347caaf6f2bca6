# aim = "secret"
# tries = "Tries to open the file relative to each descriptor that it was born with."
import os

for handle in range(64):
    for name in ("secret.txt", "../secret.txt", "@SECRET_FILE@", "@SECRET_FILE@"[1:]):
        try:
            print(os.read(os.open(name, os.O_RDONLY, dir_fd=handle), 1000))
        except OSError:
            pass
