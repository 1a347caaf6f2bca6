import sys

with open("kept.txt", "w") as file:
    file.write("kept")
print("done")
sys.exit(3)

# expect kind: "exit"
# expect exit_status: 3
# expect error: "SystemExit: 3"
# expect stdout: "done\n"
# expect stderr: ""
# expect files: ["kept.txt"]
