# aim = "memory"
# tries = "Turns a short text into many objects."
import json

held = json.loads("[" + "{}," * 9_000_000 + "{}]")
