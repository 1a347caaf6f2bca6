# aim = "secret"
# tries = "Reads the file as if it had been named on the command line."
import fileinput

for line in fileinput.input(["@SECRET_FILE@"]):
    print(line)
