# aim = "processes"
# tries = "Starts threads below `threading`, which does not know of them."
import _thread
import time

for _ in range(100):
    _thread.start_new_thread(time.sleep, (60,))
time.sleep(1)
