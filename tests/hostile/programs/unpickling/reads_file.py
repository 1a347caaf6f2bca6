# aim = "secret"
# tries = "Has a pickle evaluate an expression that reads a file."
import pickle

print(pickle.loads(b"cbuiltins\neval\n(S'open(\"@SECRET_FILE@\").read()'\ntR."))
