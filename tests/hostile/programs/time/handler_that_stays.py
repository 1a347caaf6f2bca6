# aim = "time"
# tries = "Stays in the handler of the interrupt."
import signal


def handler(*_):
    while True:
        pass


signal.signal(signal.SIGINT, handler)
while True:
    pass
