# aim = "memory"
# tries = "Joins two tables on a key that all rows share."
# needs = ["pandas"]
import pandas

table = pandas.DataFrame({"key": [1] * 7000, "value": range(7000)})
held = table.merge(table, on="key")
