# aim = "contact"
# tries = "Has pandas read a table from a URL."
# needs = ["pandas"]
import pandas

pandas.read_csv("http://127.0.0.1:@PORT@/data.csv")
