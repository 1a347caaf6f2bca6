"""What the value says is data for the host, whatever it looks like."""

result = {"__reduce__": "os.system('x')", "$ref": "file:///etc/passwd", "__class__": "dict", "constructor": {"prototype": 1}}

# expect result: {"__reduce__": "os.system('x')", "$ref": "file:///etc/passwd", "__class__": "dict", "constructor": {"prototype": 1}}
