# aim = "memory"
# tries = "Pickles the same thing so that it is not recognised as the same."
import pickle

held = []
while True:
    held.append(pickle.dumps([bytes(1 << 20)] * 1 + [len(held)]))
