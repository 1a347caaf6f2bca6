# aim = "time"
# tries = "Takes a lock twice."
import threading

lock = threading.Lock()
lock.acquire()
lock.acquire()
