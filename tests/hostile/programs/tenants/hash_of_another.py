# aim = "others"
# tries = "Exhausts identities so that the next one's sets are slow."
# then_prints = "20000"
import builtins

builtins.hash = lambda value: 1
builtins.set = list
# --- then
print(len(set(range(20_000))))
