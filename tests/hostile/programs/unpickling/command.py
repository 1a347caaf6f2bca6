# aim = "outside"
# tries = "Has a pickle run a command."
import pickle

pickle.loads(b"cos\nsystem\n(S'echo > @OUTSIDE@/planted.txt'\ntR.")
