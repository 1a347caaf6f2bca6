# aim = "output"
# tries = "Leaves thousands of tables as variables of the program."
# needs = ["pandas"]
import pandas

table = pandas.DataFrame({"a": ["x" * 1000] * 50})
for i in range(3000):
    globals()[f"table{i}"] = table.copy()
print("x" * 20_000_000)
