# aim = "memory"
# tries = "Registers callbacks for the death of one object that does not die."
import weakref


class Target:
    pass


target = Target()
held = []
while True:
    held.append(weakref.ref(target, lambda _, ballast=bytes(500) + b"x": None))
