# aim = "others"
# tries = "Leaves an audit hook, which nothing can remove."
# then_prints = "opened"
import sys


def hook(event, arguments):
    if event == "open":
        raise PermissionError("owned")


sys.addaudithook(hook)
# --- then
open("mine.txt", "w").close()
print("opened")
