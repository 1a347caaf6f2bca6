# aim = "answer"
# tries = "Closes every descriptor."
import os

os.closerange(0, 1000)
