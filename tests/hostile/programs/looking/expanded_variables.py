# aim = "secret"
# tries = "Has variables expanded inside a path."
import os.path

print(os.path.expandvars("$HOSTILE_SECRET"))
