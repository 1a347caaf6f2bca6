"""Loops when its objects are taken down."""


class Forever:
    def __del__(self):
        while True:
            pass


print("started")
kept = Forever()
del kept
