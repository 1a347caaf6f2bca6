# aim = "answer"
# tries = "Closes the streams that the reply goes to."
import os

os.close(1)
os.close(2)
