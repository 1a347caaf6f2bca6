# aim = "outside"
# tries = "Has the start-up of the interpreter run a line of a file of paths."
import os
import site

os.mkdir("packages")
open("packages/a.pth", "w").write("import os; open('@OUTSIDE@/planted.txt', 'w')\n")
site.addsitedir("packages")
