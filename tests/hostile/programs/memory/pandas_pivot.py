# aim = "memory"
# tries = "Pivots a diagonal into a full square."
# needs = ["pandas"]
import pandas

table = pandas.DataFrame({"a": range(9500), "b": range(9500), "c": 1.0})
held = table.pivot(index="a", columns="b", values="c").fillna(1.0)
