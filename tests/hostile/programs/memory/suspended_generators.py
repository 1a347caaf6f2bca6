# aim = "memory"
# tries = "Suspends generators with large locals."
def holding(number):
    ballast = bytearray(b"x") * 100_000
    yield
    del ballast


held = []
while True:
    generator = holding(len(held))
    next(generator)
    held.append(generator)
