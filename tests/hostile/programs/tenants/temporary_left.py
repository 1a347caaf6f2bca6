# aim = "others"
# tries = "Leaves a link in the directory for temporary files, under a name that is easy to guess."
# then_prints = "mine"
import os
import tempfile

name = os.path.join(tempfile.gettempdir(), "report.txt")
if not os.path.lexists(name):
    os.symlink("@OUTSIDE@/nothing/else", name)
# --- then
import os
import tempfile

with open(os.path.join(tempfile.gettempdir(), "report.txt"), "w") as file:
    file.write("mine")
print(open(file.name).read())
