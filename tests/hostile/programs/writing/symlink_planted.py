# aim = "outside"
# tries = "Leaves a link outside that leads into its workspace."
import os

os.symlink(os.getcwd(), "@OUTSIDE@/planted")
