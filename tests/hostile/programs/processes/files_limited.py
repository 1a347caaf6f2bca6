# aim = "descriptors"
# tries = "Raises the limit of descriptors and uses all."
import os
import resource

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held = []
try:
    while True:
        held.append(os.dup(2))
except OSError:
    import time

    time.sleep(0.5)
