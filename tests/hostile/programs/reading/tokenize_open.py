# aim = "secret"
# tries = "Reads by `tokenize`, which opens files for source code."
import tokenize

with tokenize.open("@SECRET_FILE@") as source:
    print(source.read())
