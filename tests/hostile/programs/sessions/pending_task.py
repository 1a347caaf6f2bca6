# aim = "outside"
# tries = "Leaves a thread or a task that goes on between two runs."
# session = true
import threading
import time


def later():
    time.sleep(0.1)
    open("@OUTSIDE@/planted.txt", "w").close()


threading.Thread(target=later).start()
# --- again
import time

time.sleep(0.4)
