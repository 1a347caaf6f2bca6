# aim = "secret"
# tries = "Prints the environment of the process that hosts it."
import os

print(dict(os.environ))
