# aim = "memory"
# tries = "Objects come back to life in their destructors, with more."
held = []


class Undead:
    def __init__(self):
        self.ballast = bytearray(b"x" * 100_000)

    def __del__(self):
        held.append(self)


while True:
    Undead()
