# aim = "others"
# tries = "Plants an expression in the cache of compiled ones."
# then_prints = "None"
import re

wrong = re.compile("b")
re.compile = lambda pattern, flags=0: wrong
re.match = lambda pattern, text, flags=0: "owned"
# --- then
import re

print(re.match("a", "b"))
