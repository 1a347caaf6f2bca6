# aim = "alive"
# tries = "Sets the parts of an exception's chain to each other."
# control = "CPython breaks the cycle; the class stays worth trying"
a, b = ValueError(), ValueError()
a.__context__, b.__context__ = b, a
a.__cause__, b.__cause__ = b, a
group = ExceptionGroup("g", [a, b])
a.__traceback__ = group.__traceback__
raise group from a
