# aim = "time"
# tries = "Groups every row for itself and calls a function for each."
# needs = ["pandas"]
import pandas

frame = pandas.DataFrame({"a": range(300_000), "b": 1})
frame.groupby("a")["b"].apply(lambda group: group.describe())
