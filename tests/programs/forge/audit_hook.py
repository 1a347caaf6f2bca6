"""An audit hook cannot be taken back: whatever it refuses is refused to the runner, too."""

import sys

result = "still here"
armed = False


def refuse(event, arguments):
    if armed:
        raise SystemExit(7)


sys.addaudithook(refuse)
armed = True

# expect answered: true
