# aim = "output"
# tries = "Leaves tables whose form as text is huge."
# needs = ["pandas"]
import pandas

pandas.set_option("display.max_rows", None)
pandas.set_option("display.max_columns", None)
pandas.set_option("display.max_colwidth", None)
pandas.set_option("display.width", 10_000_000)
frame = pandas.DataFrame({f"c{i}": ["x" * 10_000] * 20 for i in range(100)})
print(frame)
