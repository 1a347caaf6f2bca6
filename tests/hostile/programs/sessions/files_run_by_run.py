# aim = "disk"
# tries = "Fills the workspace a little more with each run."
# session = true
open("a", "wb").write(b"x" * (30 << 20))
# --- again
open("b", "wb").write(b"x" * (30 << 20))
# --- again
open("c", "wb").write(b"x" * (30 << 20))
import time

time.sleep(0.5)
