# aim = "time"
# tries = "Catches the interrupt inside a generator, at each place where one can come."
def stubborn():
    while True:
        try:
            yield
        except BaseException:
            continue


for _ in stubborn():
    try:
        for _ in range(10**9):
            pass
    except BaseException:
        continue
