# aim = "answer"
# tries = "Leaves a table whose keys are different things and the same text."
# control = "both sides take the last of them, and lose the others"
result = {1: "a", "1": "b", True: "c", None: "d", "null": "e"}
