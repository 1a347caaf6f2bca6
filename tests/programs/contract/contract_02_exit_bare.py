print("done")
exit()

# expect success: true
# expect stdout: "done\n"
# expect stderr: ""
