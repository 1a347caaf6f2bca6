import builtins

result = {"kept": [1, 2]}
print("before")
for name in dir(builtins):
    if name not in ("builtins", "setattr", "__build_class__"):
        setattr(builtins, name, None)

# expect success: true
# expect result: {"kept": [1, 2]}
# expect stdout: "before\n"
