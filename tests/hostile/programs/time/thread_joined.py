# aim = "time"
# tries = "Waits for a thread that never ends."
import threading

thread = threading.Thread(target=threading.Event().wait, daemon=True)
thread.start()
thread.join()
