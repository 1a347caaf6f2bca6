# aim = "answer"
# tries = "Leaves text that no encoding has."
result = "\ud800"
