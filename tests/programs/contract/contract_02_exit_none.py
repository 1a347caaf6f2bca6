import sys

print("done")
sys.exit()

# expect success: true
# expect stdout: "done\n"
# expect stderr: ""
