# aim = "alive"
# tries = "Unpickles objects that nest without end."
# control = "CPython counts this recursion"
import pickle

try:
    pickle.loads(b"(" * 1_000_000 + b"l" * 1_000_000 + b".")
except (RecursionError, pickle.UnpicklingError, MemoryError) as error:
    print(type(error))
