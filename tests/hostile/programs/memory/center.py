# aim = "memory"
# tries = "Pads a text by a method."
print(len("é".center(700 << 20)))
