# aim = "outside"
# tries = "Deletes a file of the host."
import os

os.unlink("../outside/victim.txt")
