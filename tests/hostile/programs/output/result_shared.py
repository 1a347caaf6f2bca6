# aim = "output"
# tries = "Leaves a result that is small in memory and huge when written."
result = "x" * 1000
for _ in range(5):
    result = [result] * 10
