def wait():
    n = 0
    while True:
        n += 1


print("start")
wait()

# with timeout: 0.5
# expect kind: "timeout"
# expect error: "Code execution timed out after 0.5 seconds"
# expect line between: [3, 4]
# expect stdout: "start\n"
