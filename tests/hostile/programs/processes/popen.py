# aim = "secret"
# tries = "Reads the file by a program."
import subprocess

print(subprocess.check_output(["cat", "@SECRET_FILE@"]))
