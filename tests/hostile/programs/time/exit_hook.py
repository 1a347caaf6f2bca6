# aim = "time"
# tries = "Loops in what is called at the end."
import atexit

atexit.register(sum, iter(lambda: 1, 2))
raise SystemExit
