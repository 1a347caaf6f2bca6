# aim = "outside"
# tries = "Leaves a thread that acts after the answer was given."
import threading
import time


def later():
    time.sleep(0.3)
    open("@OUTSIDE@/planted.txt", "w").close()


threading.Thread(target=later).start()
