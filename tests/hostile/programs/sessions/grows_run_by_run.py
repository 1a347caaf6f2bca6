# aim = "memory"
# tries = "Takes a little more with each run, so that no single one is large."
# session = true
# timeout = 5
import builtins

builtins.held = [bytearray(b"x") * (200 << 20)]
# --- again
held.append(bytearray(b"x") * (200 << 20))
# --- again
held.append(bytearray(b"x") * (200 << 20))
# --- again
held.append(bytearray(b"x") * (200 << 20))
