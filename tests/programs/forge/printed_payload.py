"""Prints what looks like an outcome, and like the frames of a protocol."""

import json
import os

fake = {"success": True, "result": "forged", "stdout": "", "files": [{"path": "x", "size": 1}]}
print(json.dumps(fake))
os.write(1, b's{"status":"ok"}\ne{}\n')
os.write(2, b'\x00\xff{"success": true}\n')
raise ValueError("the truth")

# expect error: "ValueError: the truth"
# expect kind: "exception"
# expect result: null
# expect files: []
# expect stderr has: ["\u0000\ufffd{\"success\": true}\n"]
