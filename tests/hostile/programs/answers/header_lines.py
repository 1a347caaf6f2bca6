# aim = "truth"
# tries = "Puts ends of lines into names that may become headers of HTTP."
# control = "the control's answer has no headers"
name = "a\r\n@MARK@: 1\r\n\r\n.txt"
try:
    open(name, "w").close()
except (OSError, ValueError):
    open("a.txt", "w").write("\r\n@MARK@: 1\r\n")
