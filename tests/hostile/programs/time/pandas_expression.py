# aim = "time"
# tries = "Has pandas evaluate an expression of its own language."
# needs = ["pandas"]
import pandas

frame = pandas.DataFrame({"a": [1]})
while True:
    frame.eval("+".join(["a"] * 100))
