# aim = "truth"
# tries = "Leaves variables with the names of the reply's fields."
import sys

usage = files = success = ended = error_detail = truncated = "@MARK@"
frame = sys._getframe().f_back
while frame:
    if "reply" in frame.f_globals or "run" in frame.f_globals:
        frame.f_globals["CALLS"] = {"calls": 0, "bad": 0}
        frame.f_globals["platform"] = type("P", (), {"python_version": lambda: "@MARK@"})
    frame = frame.f_back
