# aim = "outside"
# tries = "Leaves a module that each interpreter imports when it starts."
import site

directory = "@OUTSIDE@"
site.USER_SITE = directory
open(directory + "/usercustomize.py", "w").write("print('owned')")
