exit(True)

# expect kind: "exit"
# expect exit_status: 1
