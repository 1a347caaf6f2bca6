# aim = "others"
# tries = "Changes an option of pandas for the next one."
# needs = ["pandas"]
# then_prints = "5"
import pandas

pandas.DataFrame.__len__ = lambda self: 0
# --- then
import pandas

print(len(pandas.DataFrame({"a": range(5)})))
