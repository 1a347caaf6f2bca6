# aim = "truth"
# tries = "Replaces the clock by which its time is taken."
import time

time.monotonic = time.perf_counter = time.time = lambda: 12345678901.0
time.monotonic_ns = time.perf_counter_ns = time.time_ns = lambda: 1
import sys

frame = sys._getframe()
while frame.f_back:
    frame = frame.f_back
frame.f_globals["TASK"] = {"base": "/nowhere"} | frame.f_globals.get("TASK", {})
frame.f_globals["platform"] = type("P", (), {"python_version": lambda: "@MARK@"})
