# aim = "time"
# tries = "Spins, and catches whatever is raised in it."
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
