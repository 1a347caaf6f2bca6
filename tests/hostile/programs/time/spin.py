# aim = "time"
# tries = "Spins."
while True:
    pass
