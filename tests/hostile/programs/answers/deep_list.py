# aim = "answer"
# tries = "Leaves a result that nests deeper than a reader of JSON goes."
result = []
for _ in range(100_000):
    result = [result]
