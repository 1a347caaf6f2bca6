# aim = "time"
# tries = "Suppresses every exception by a context, and enters it again."
import contextlib

while True:
    with contextlib.suppress(BaseException):
        while True:
            pass
