# aim = "secret"
# tries = "Names a file outside as a figure that it made."
# needs = ["matplotlib"]
# control = "the control collects no figures"
import sys
import types


class Figure:
    def savefig(self, path, *args, **kwargs):
        import os

        os.symlink("@SECRET_FILE@", path)


fake = types.ModuleType("matplotlib.pyplot")
fake.get_fignums = lambda: [1]
fake.figure = lambda number: Figure()
sys.modules["matplotlib.pyplot"] = fake
