print("before")
globals().clear()

# expect success: true
# expect result: null
# expect stdout: "before\n"
