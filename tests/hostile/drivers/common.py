"""Shared by the drivers of packages: the task, the secret of the process, and the replies."""

import json
import os
import sys
import time

CREDENTIALS = {"token": os.environ["HOSTILE_SECRET"]}
TASK = json.load(sys.stdin)
CALLS = {"calls": 0, "bad": 0}


def lookup(key):
    """The caller's tool: a function that runs next to the caller's secrets."""
    CALLS["calls"] += 1
    CALLS["bad"] += type(key) is not str or len(key) > 64
    return f"value of {key}"


def parts():
    """Each piece of code, and who runs it."""
    return zip(TASK["codes"], TASK["session"] or ["attacker"] * len(TASK["codes"]))


def reply(version, run):
    """Calls `run`, which returns the status, output, error and result; prints the reply."""
    began = time.monotonic()
    ended, stdout, error, result = run()
    answer = {
        "ended": ended,
        "stdout": stdout,
        "error": error,
        "result": plain(result),
        "seconds": time.monotonic() - began,
        "tool_calls": CALLS["calls"],
        "bad_tool_calls": CALLS["bad"],
        "version": version,
    }
    print(json.dumps(answer), flush=True)


def plain(value):
    try:
        json.dumps(value)
        return value
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def kind(error):
    """The status for an exception of a package."""
    text = f"{type(error).__name__}: {error}"
    lower = text.lower()
    if "timeout" in lower or "time limit" in lower or "duration" in lower or "timed out" in lower:
        return "timeout", text
    return ("memory" if "memory" in lower else "error"), text
