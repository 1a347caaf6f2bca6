print("done")
raise SystemExit

# expect success: true
# expect stdout: "done\n"
# expect stderr: ""
