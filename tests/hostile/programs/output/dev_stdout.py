# aim = "output"
# tries = "Opens its output by a name."
# control = "the control's pipe belongs to the superuser, and opening it by name is refused"
with open("/dev/stdout", "w") as stream:
    while True:
        stream.write("x" * 100_000)
