# aim = "output"
# tries = "Fails in very many destructors, each of which is reported."
class Failing:
    def __del__(self):
        raise ValueError("x" * 10_000)


while True:
    Failing()
