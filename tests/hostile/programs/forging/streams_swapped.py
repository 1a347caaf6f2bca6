# aim = "answer"
# tries = "Exchanges its output with a file, so that the reply lands there."
import os

handle = os.open("captured", os.O_WRONLY | os.O_CREAT)
os.dup2(handle, 1)
os.dup2(handle, 2)
