# aim = "alive"
# tries = "Sends a signal to a thread by its number."
import signal
import threading

signal.pthread_kill(threading.get_native_id() and threading.main_thread().ident, signal.SIGUSR1)
