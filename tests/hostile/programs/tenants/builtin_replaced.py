# aim = "others"
# tries = "Replaces a builtin for whoever runs next."
# then_prints = "42"
import builtins

builtins.int = lambda *args: 7
# --- then
print(int("42"))
