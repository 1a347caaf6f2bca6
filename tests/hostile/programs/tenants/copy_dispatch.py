# aim = "others"
# tries = "Leaves a way of pickling a common type."
# then_prints = "1+2j"
import copyreg

copyreg.pickle(complex, lambda value: (str, ("owned",)))
# --- then
import pickle

print(str(pickle.loads(pickle.dumps(1 + 2j))).strip("()"))
