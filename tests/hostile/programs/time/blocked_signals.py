# aim = "time"
# tries = "Blocks all signals for its thread, and spins."
import signal

signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
while True:
    pass
