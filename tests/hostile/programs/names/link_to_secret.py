# aim = "secret"
# tries = "Leaves a link that whoever copies its files out will follow."
import os

os.symlink("@SECRET_FILE@", "report.txt")
