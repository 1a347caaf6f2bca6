"""An object whose `repr` raises costs only its own entry."""

import pandas as pd


class Raising(pd.DataFrame):
    def __repr__(self):
        raise ValueError("no")


Raising.__module__ = "pandas.core.frame"


class Cell:
    def __repr__(self):
        raise ValueError("no cell")


class Lying:
    __module__ = "pandas"


class Disguised:
    @property
    def __class__(self):
        return pd.DataFrame


class Renamed(pd.Series):
    pass


Renamed.__module__ = "elsewhere"
before = pd.DataFrame({"a": [1]})
raising = Raising({"a": [1]})
cells = pd.Series([Cell()])
disguised = Disguised()
renamed = Renamed([1])
after = pd.Series([1])
result = "fine"

# expect success: true
# expect result: "fine"
# expect dataframes: ["before", "after"]
# expect stderr has: ["`raising` cannot be shown: ValueError: no", "`cells` cannot be shown: ValueError: no cell"]
