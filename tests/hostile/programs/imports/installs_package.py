# aim = "outside"
# tries = "Installs a package, whose build runs whatever it likes."
# control = "the control's environment may have no pip"
# timeout = 5
import os
import subprocess
import sys

os.mkdir("evil")
open("evil/setup.py", "w").write("open('@OUTSIDE@/planted.txt', 'w')\nfrom setuptools import setup\nsetup(name='e')")
subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-build-isolation", "./evil"], check=True)
