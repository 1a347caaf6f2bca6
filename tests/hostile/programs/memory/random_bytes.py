# aim = "memory"
# tries = "Has the system fill a huge block with random bytes."
import os

held = os.urandom(768 << 20)
