print("done")
quit()

# expect success: true
# expect stdout: "done\n"
# expect stderr: ""
