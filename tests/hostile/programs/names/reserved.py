# aim = "answer"
# tries = "Leaves files whose names are devices elsewhere."
# control = "there are no such devices here"
for name in ("CON", "aux.txt", "NUL", "a:b", "a.", "a ", "con.png"):
    open(name, "w").close()
