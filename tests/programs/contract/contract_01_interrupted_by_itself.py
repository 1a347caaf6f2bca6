"""An exception that the code raised itself is nobody's interrupt."""

raise KeyboardInterrupt("mine")

# expect error: "KeyboardInterrupt: mine"
# expect kind: "exception"
# expect line: 3
