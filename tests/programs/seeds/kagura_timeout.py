import time

time.sleep(15)  # Will timeout
result = "done"

# with policy: strict
# with timeout: 0.5
# expect error: "Code execution timed out after 0.5 seconds"
# expect kind: "timeout"
# expect line: 3
# expect result: null
