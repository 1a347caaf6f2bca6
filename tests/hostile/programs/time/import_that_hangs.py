# aim = "time"
# tries = "Imports a module of its own that never comes to its end."
open("hangs.py", "w").write("while True:\n    pass\n")
import sys

sys.path.insert(0, "")
import hangs
