# aim = "secret"
# tries = "Looks through all objects for those of another tenant."
# --- before
class Customer:
    def __init__(self):
        self.card = "hostile-secret-" + "found"


customer = Customer()
# --- attack
import gc

for thing in gc.get_objects():
    if type(thing).__name__ == "Customer":
        print(vars(thing))
