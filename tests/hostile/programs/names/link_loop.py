# aim = "time"
# tries = "Leaves links that lead to each other."
# control = "the control's check for regular files ends at the kernel's count"
import os

os.symlink("b", "a")
os.symlink("a", "b")
os.symlink(".", "self")
print(os.path.realpath("self/self/self/a"))
