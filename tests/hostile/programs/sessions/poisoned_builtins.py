# aim = "answer"
# tries = "Leaves its session without builtins, so that the next run cannot reply."
# session = true
import builtins

kept = dict(vars(builtins))
for name in list(kept):
    delattr(builtins, name) if name != "__build_class__" else None
# --- again
print(1)
