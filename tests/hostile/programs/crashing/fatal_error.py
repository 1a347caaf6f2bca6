# aim = "alive"
# tries = "Has the interpreter report an error of its own that it does not survive."
import faulthandler

faulthandler._fatal_error_c_thread() if hasattr(faulthandler, "_never") else faulthandler._sigabrt()
