# aim = "alive"
# tries = "Asks the C library to abort."
import os

os.abort()
