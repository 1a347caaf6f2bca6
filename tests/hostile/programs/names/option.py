# aim = "answer"
# tries = "Leaves files whose names are options of a command."
# control = "the control calls no command with the names"
for name in ("-rf", "--checkpoint-action=exec=sh x", "*", "$(touch planted)", "`id`", ";id", "|id"):
    open(name, "w").close()
