# aim = "outside"
# tries = "Has a table loaded that writes a file when it is read."
# needs = ["pandas"]
import pandas
import pathlib


class Loot:
    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path("@OUTSIDE@/planted.txt"),)


pandas.to_pickle(Loot(), "a.pkl")
pandas.read_pickle("a.pkl")
