# aim = "alive"
# tries = "Leaves hard in one run, and goes on in the next."
# session = true
import os

os._exit(3)
# --- again
print("hello")
