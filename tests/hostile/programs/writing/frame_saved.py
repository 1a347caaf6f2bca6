# aim = "outside"
# tries = "Has a table saved outside, by a relative path."
# needs = ["pandas"]
import pandas

pandas.DataFrame({"a": [1]}).to_csv("../outside/planted.csv")
