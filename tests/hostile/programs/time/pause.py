# aim = "time"
# tries = "Waits for a signal."
import signal

signal.pause()
