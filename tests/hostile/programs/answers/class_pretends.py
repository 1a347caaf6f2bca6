# aim = "answer"
# tries = "Leaves an object whose class claims to be text."
class Pretends:
    @property
    def __class__(self):
        return str

    def __repr__(self):
        raise SystemExit

    __str__ = __repr__


result = Pretends()
