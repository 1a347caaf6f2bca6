# aim = "memory"
# tries = "Grows by a replacement that makes more of what it replaces."
text = "aa"
while True:
    text = text.replace("a", "aaaa")
