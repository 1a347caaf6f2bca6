# aim = "time"
# tries = "Waits for a queue that nobody fills."
import queue

queue.Queue().get()
