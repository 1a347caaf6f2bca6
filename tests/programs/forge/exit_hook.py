import atexit
import sys


@atexit.register
def leave():
    print("in the hook")
    sys.exit(3)


result = "still here"

# expect success: true
# expect result: "still here"
# expect stdout: "in the hook\n"
