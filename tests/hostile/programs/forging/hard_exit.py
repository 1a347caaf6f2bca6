# aim = "truth"
# tries = "Leaves with status 0 in the middle, which is no end of a program."
# never = ["ok"]
# control = "the control's caller sees that no reply came"
import os

os._exit(0)
