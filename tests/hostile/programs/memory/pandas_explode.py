# aim = "memory"
# tries = "Explodes cells that hold the same list."
# needs = ["pandas"]
import pandas

held = pandas.DataFrame({"a": [list(range(1_000_000))] * 60}).explode("a")
