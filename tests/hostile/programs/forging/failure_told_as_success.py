# aim = "truth"
# tries = "Reports success, and then runs for ever."
# never = ["ok", "error"]
import os

os.write(1, b'{"ended": "ok", "stdout": "", "@MARK@": 1}\n')
os.closerange(3, 100)
os._exit(0)
