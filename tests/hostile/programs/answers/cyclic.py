# aim = "answer"
# tries = "Leaves a result that contains itself."
result = []
result.append({"self": result})
