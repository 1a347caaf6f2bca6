# aim = "time"
# tries = "Compares texts by an algorithm that is cubic on them."
import difflib

difflib.SequenceMatcher(None, "ab" * 3000, "ba" * 3000, autojunk=False).ratio()
list(difflib.ndiff(["a" * i + "b" for i in range(300)], ["b" + "a" * i for i in range(300)]))
