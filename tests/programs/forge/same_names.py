"""Variables and modules named like the runner's own."""

import sys
import types

_belljar = _host = door = runner = send = fetch = run = encode = decode = None
request = values = frames = figures = streams = namespaces = status = outcome = "mine"
for name in ("_belljar", "_belljar.door", "_belljar.values", "_host", "_belljar.streams"):
    sys.modules[name] = types.ModuleType(name)
result = [request, status]

# expect success: true
# expect result: ["mine", "mine"]
