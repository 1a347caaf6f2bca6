# aim = "descriptors"
# tries = "Opens a file again and again."
held = []
open("a", "w").close()
try:
    while True:
        held.append(open("a"))
except OSError:
    import time

    time.sleep(0.5)
