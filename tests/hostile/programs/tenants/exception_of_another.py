# aim = "secret"
# tries = "Reads the last exception that somebody else raised."
# --- before
import sys

try:
    raise ValueError("hostile-secret-" + "found")
except ValueError as error:
    sys.last_value = error
# --- attack
import sys

print(repr(getattr(sys, "last_value", None)))
