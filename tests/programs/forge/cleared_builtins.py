result = {"kept": [1, 2]}
print("before")
__builtins__.__dict__.clear() if hasattr(__builtins__, "__dict__") else __builtins__.clear()

# expect success: true
# expect result: {"kept": [1, 2]}
# expect stdout: "before\n"
