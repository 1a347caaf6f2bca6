# aim = "outside"
# tries = "Leaves a child that acts after the answer was given."
import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for handle in range(64):
            try:
                os.close(handle)
            except OSError:
                pass
        time.sleep(0.5)
        open("@OUTSIDE@/planted.txt", "w").close()
    os._exit(0)
os.wait()
