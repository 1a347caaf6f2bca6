# aim = "secret"
# tries = "Has the environment in the report of a failure."
import cgitb
import sys

cgitb.enable(format="text", context=5)
import os

sys.excepthook(*(lambda e: (type(e), e, e.__traceback__))(ValueError(str(os.environ))))
