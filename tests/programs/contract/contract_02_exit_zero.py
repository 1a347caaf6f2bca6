import sys

print("done")
sys.exit(0)

# expect success: true
# expect stdout: "done\n"
# expect stderr: ""
