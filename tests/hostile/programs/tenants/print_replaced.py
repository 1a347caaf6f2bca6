# aim = "others"
# tries = "Has the next one's output go through its own function."
# then_prints = "private"
import builtins

original = builtins.print
builtins.print = lambda *args, **kwargs: original("stolen", *args, **kwargs)
# --- then
print("private")
