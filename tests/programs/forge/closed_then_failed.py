import os
import sys

print("before")
sys.stdout.close()
sys.stderr.close()
os.closerange(0, 64)
result = "still here"
raise ValueError("after closing everything")

# expect error: "ValueError: after closing everything"
# expect kind: "exception"
# expect line: 9
# expect result: "still here"
# expect stdout: "before\n"
