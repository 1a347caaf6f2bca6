# aim = "answer"
# tries = "Leaves directories deeper than a path can name."
# control = "the control's walk gives up quietly"
import os

for _ in range(300):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
open("bottom.txt", "w").close()
