# aim = "answer"
# tries = "Leaves a number whose text is not a number."
class Text(float):
    def __repr__(self):
        return "@MARK@"


class Whole(int):
    def __repr__(self):
        return '0, "usage": "@MARK@"'

    __str__ = __format__ = __repr__


result = [Text(1), Whole(1)]
import json

json.encoder.float = type("F", (float,), {"__repr__": lambda self: "oops"})
json.encoder.c_make_encoder = None
json.encoder.int = type("I", (int,), {"__repr__": lambda self: '1, "@MARK@"'})
