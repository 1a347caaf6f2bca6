# aim = "alive"
# tries = "Loads a constant far behind the end of the table."
def victim():
    return 1


code = bytes([151, 0, 144, 255, 144, 255, 100, 255, 83, 0])
victim.__code__ = victim.__code__.replace(co_code=code)
print(victim())
