"""Hooks into every call and line, the runner's as well."""

import sys
import threading


def fail(*_):
    raise SystemExit(6)


result = "still here"
sys.excepthook = sys.unraisablehook = sys.displayhook = fail
threading.excepthook = fail
threading.settrace(fail)
sys.setprofile(lambda *_: None)
sys.settrace(lambda *_: None)

# expect success: true
# expect result: "still here"
