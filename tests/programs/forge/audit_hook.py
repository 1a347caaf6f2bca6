"""An audit hook cannot be taken back: whatever it refuses is refused to the runner, too."""

import sys


# With nothing in it that goes away with the module.
def refuse(event, arguments, exit=SystemExit):
    raise exit(7)


result = "still here"
sys.addaudithook(refuse)
try:
    open("file.txt", "w")
except SystemExit as refused:
    print(f"refused with {refused}")

# expect stdout: "refused with 7\n"
# expect result: "still here"
# expect stderr has: ["cannot be flushed: SystemExit: 7"]
# expect files: []
