# aim = "answer"
# tries = "Leaves zeros in every text that it can name."
# control = "JSON quotes a zero, and readers take it"
result = {"\0": "\0"}
print("\0")
raise type("E\N{NULL}"[:1], (Exception,), {})("\0")
