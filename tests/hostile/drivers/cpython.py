"""The control: runs each part by `exec` in this process, and prints a line of JSON for it.

A typical first attempt at a runner: redirects streams, catches exceptions, copies files out.
"""

import contextlib
import io
import json
import os
import platform
import shutil
import sys
import time
import types

CREDENTIALS = {"token": os.environ["HOSTILE_SECRET"]}
TASK = json.load(sys.stdin)
CALLS = {"calls": 0, "bad": 0}


def lookup(key):
    """The caller's tool: a function that runs next to the caller's secrets."""
    CALLS["calls"] += 1
    CALLS["bad"] += type(key) is not str or len(key) > 64
    return f"value of {key}"


def main():
    sys.modules["tools"] = tools = types.ModuleType("tools")
    tools.lookup = lookup
    names = {}
    for number, code in enumerate(TASK["codes"]):
        who = TASK["session"][number] if TASK["session"] else "attacker"
        reply = run(code, names.setdefault(who, {"__name__": "__main__"}))
        print(json.dumps(reply), flush=True)


def run(code, names):
    began = time.monotonic()
    stdout = io.StringIO()
    ended, error = "ok", None
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stdout):
        try:
            exec(compile(code, "<string>", "exec"), names)
        except SystemExit as exit:
            ended = "ok" if not exit.code else "error"
        except MemoryError:
            ended = "memory"
        except BaseException as failure:
            ended, error = "error", f"{type(failure).__name__}: {failure}"
            import traceback

            stdout.write("".join(traceback.format_exception(failure)))
    return {
        "ended": ended,
        "stdout": stdout.getvalue(),
        "error": error,
        "result": plain(names.get("result")),
        "files": copied_out(),
        "seconds": time.monotonic() - began,
        "tool_calls": CALLS["calls"],
        "bad_tool_calls": CALLS["bad"],
        "version": f"CPython {platform.python_version()}",
    }


def plain(value):
    try:
        json.dumps(value)
        return value
    except TypeError:
        return repr(value)


def copied_out():
    """Copies the program's files to the caller, and lists them."""
    out = os.path.join(TASK["base"], "out")
    found = []
    for top, _, names in os.walk(os.path.join(TASK["base"], "box", "work")):
        for name in names[:50]:
            path = os.path.join(top, name)
            if os.path.isfile(path) and os.path.getsize(path) < 1 << 20:
                found.append({"path": path, "size": os.path.getsize(path)})
                shutil.copy(path, os.path.join(out, f"{len(found)}-{name}"))
    return found


main()
