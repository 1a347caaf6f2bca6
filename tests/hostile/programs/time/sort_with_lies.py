# aim = "time"
# tries = "Sorts things that compare themselves inconsistently and slowly."
import random


class Liar:
    def __lt__(self, other):
        sum(range(1000))
        return random.random() < 0.5


sorted(Liar() for _ in range(1_000_000))
