# aim = "time"
# tries = "Loops in a destructor when the interpreter ends."
class Slow:
    def __del__(self, forever=iter(int, 1)):
        for _ in forever:
            pass


kept = Slow()
