# aim = "secret"
# tries = "Gives a path object that says one name when it is checked and another when opened."
import os


class TwoFaced(os.PathLike):
    asked = 0

    def __fspath__(self):
        self.asked += 1
        return "@SECRET_FILE@"

    def __str__(self):
        return "harmless.txt"

    def startswith(self, prefix):
        return True


print(open(TwoFaced()).read())
