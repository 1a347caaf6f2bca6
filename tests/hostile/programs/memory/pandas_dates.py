# aim = "memory"
# tries = "Makes an index of every second of centuries."
# needs = ["pandas"]
import pandas

held = [pandas.date_range("1700", "1703", freq="s") + pandas.Timedelta(i, "s") for i in range(10)]
