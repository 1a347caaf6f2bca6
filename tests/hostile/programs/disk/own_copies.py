# aim = "disk"
# tries = "Copies its own directory into itself."
import shutil

open("seed", "wb").write(b"x" * (4 << 20))
for i in range(40):
    shutil.copy("seed", f"copy{i}")
