# aim = "alive"
# tries = "Runs bytecode that pops more than it pushed."
def victim():
    pass


code = bytes([151, 0] + [1, 0] * 200 + [83, 0])
victim.__code__ = victim.__code__.replace(co_code=code, co_stacksize=1)
victim()
