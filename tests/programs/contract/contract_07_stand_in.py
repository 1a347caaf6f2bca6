"""A class that says it is pandas' is shown where pandas is not imported."""


class Frame:
    def __repr__(self):
        return "col\n1"


Frame.__module__ = "pandas.core.frame"
frame = Frame()

# expect dataframes: ["frame"]
# expect repr of frame: "col\n1"
