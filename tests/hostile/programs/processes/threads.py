# aim = "processes"
# tries = "Starts threads that wait for ever."
import threading

for _ in range(200):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
threading.Event().wait(1)
