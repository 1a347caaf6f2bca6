"""Ends well, and then loops in what Python calls at exit."""

import atexit


@atexit.register
def forever():
    while True:
        pass


print("started")
