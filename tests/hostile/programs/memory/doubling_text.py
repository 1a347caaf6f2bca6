# aim = "memory"
# tries = "Doubles a text until it is larger than the machine."
text = "x"
while True:
    text += text
