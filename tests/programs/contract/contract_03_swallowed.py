"""The interrupt is caught and the code goes on: it is stopped all the same, with what it printed."""

print("before")
while True:
    try:
        while True:
            pass
    except BaseException:
        print("caught it")

# with timeout: 0.5
# expect kind: "timeout"
# expect error: "Code execution timed out after 0.5 seconds"
# expect stdout starts: "before\ncaught it\n"
# expect line between: [6, 7]
