# aim = "truth"
# tries = "Leaves a file whose name has a new line and a second entry of the listing."
# control = "the control quotes names"
open('a.txt", "size": 1}, {"path": "b', "w").close()
open('c\n{"path": "@MARK@'[:2], "w").close()
