# aim = "alive"
# tries = "Stores to a local variable that the frame has no room for."
def victim():
    a = 1


code = bytes([151, 0] + [100, 1, 144, 127, 125, 255] * 50 + [100, 0, 83, 0])
victim.__code__ = victim.__code__.replace(co_code=code)
victim()
victim.__code__ = victim.__code__.replace(co_code=bytes([151, 0, 144, 127, 144, 255, 124, 255, 83, 0]))
repr(victim())
