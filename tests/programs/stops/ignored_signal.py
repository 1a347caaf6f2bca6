"""Asks not to be interrupted."""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
print("started")
while True:
    pass
