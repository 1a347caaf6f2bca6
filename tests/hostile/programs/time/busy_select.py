# aim = "time"
# tries = "Waits for many times to pass, by the calls for waiting."
import select

while True:
    select.select([], [], [], 0.001)
