"""The code's own hook writes what stderr holds; what failed is told as ever."""

import sys


def hook(kind, error, trace):
    print(f"hooked: {kind.__name__} in line {trace.tb_lineno}", file=sys.stderr)


sys.excepthook = hook
1 / 0

# expect kind: "exception"
# expect error: "ZeroDivisionError: division by zero"
# expect line: 11
# expect stderr: "hooked: ZeroDivisionError in line 11\n"
# expect traceback has: ["line 11, in <module>", "ZeroDivisionError: division by zero"]
