import os
import subprocess  # noqa: F401

result = [eval("1 + 1"), os.sep, (1).__class__.__name__]

# expect success: true
# expect result: [2, "/", "int"]
