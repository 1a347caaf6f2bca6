"""Answers an interrupt by going on."""

import signal

signal.signal(signal.SIGINT, lambda *_: None)
print("started")
while True:
    pass
