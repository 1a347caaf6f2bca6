# aim = "processes"
# tries = "Has a pool of processes made, each with threads."
import multiprocessing
import time

context = multiprocessing.get_context("fork")
children = [context.Process(target=time.sleep, args=(60,), daemon=True) for _ in range(40)]
for child in children:
    child.start()
time.sleep(1)
