# aim = "memory"
# tries = "Grows a text by upper case, again and again."
# timeout = 5
text = "\u0390" * 1_000_000
held = [text.upper() for _ in range(60)]
