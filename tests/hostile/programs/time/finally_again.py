# aim = "time"
# tries = "Begins anew in its `finally`."
def again():
    try:
        while True:
            pass
    finally:
        again()


again()
