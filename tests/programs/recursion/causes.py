"""An exception with a hundred thousand causes, which a traceback wants to show."""

error = ValueError("first")
for number in range(100_000):
    following = ValueError(str(number))
    following.__cause__ = error
    error = following
raise error
