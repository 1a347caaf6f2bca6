# aim = "time"
# tries = "Replaces the functions by which it is timed, and spins."
import time

time.monotonic = time.time = time.perf_counter = time.process_time = lambda: 0.0
while True:
    pass
