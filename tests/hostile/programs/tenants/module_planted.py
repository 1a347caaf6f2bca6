# aim = "others"
# tries = "Leaves a module of its own under a name of the standard library."
# then_prints = "[1, 2]"
import sys
import types

sys.modules["json"] = types.SimpleNamespace(loads=lambda text: "owned", dumps=lambda value: "owned")
# --- then
import json

print(json.loads("[1, 2]"))
