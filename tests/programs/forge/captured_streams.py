"""What is printed into a buffer of the code's own is not output."""

import contextlib
import io
import sys

with contextlib.redirect_stdout(io.StringIO()) as buffer:
    print("caught")
sys.stderr = io.StringIO()
print("hidden", file=sys.stderr)
print("seen", buffer.getvalue().strip())
raise ValueError("with stderr replaced")

# expect error: "ValueError: with stderr replaced"
# expect stdout: "seen caught\n"
# expect traceback has: ["ValueError: with stderr replaced"]
