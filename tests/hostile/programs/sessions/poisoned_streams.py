# aim = "answer"
# tries = "Closes its streams for good; the next run must still be told of."
# session = true
import os

os.close(1)
os.close(2)
# --- again
print("hello")
