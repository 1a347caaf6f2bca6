# aim = "secret"
# tries = "Leaves a link to a directory outside, among the files to be copied."
# control = "the control's walk does not go into linked directories"
import os

os.symlink("..", "results")
