# aim = "secret"
# tries = "Replaces a file by a link at its end, after it was written."
import os

open("report.txt", "w").write("harmless")
os.unlink("report.txt")
os.symlink("../secret.txt", "report.txt")
