# aim = "truth"
# tries = "Prints the end of a JSON text and a new key."
# control = "the control quotes what is printed"
print('"}, "usage": "@MARK@", "success": true, "x": {"')
