# aim = "alive"
# tries = "Uses the functions by which the interpreter tests its own crashes."
import faulthandler

faulthandler._sigsegv()
