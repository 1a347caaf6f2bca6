"""`__main__` is the program, for everything that looks it up."""

import dataclasses
import inspect
import pickle
import sys
import typing


@dataclasses.dataclass
class Point:
    x: int
    y: "int" = 0


def double(n):
    return 2 * n


copy = pickle.loads(pickle.dumps(Point(1, 2)))
print(copy, typing.get_type_hints(Point))
print(sys.modules["__main__"].double(4), Point.__module__)
print(inspect.getsource(double), end="")
if __name__ == "__main__":
    print(sys.argv)

# with args: ["--fast", "ünïcode"]
# expect stdout: "Point(x=1, y=2) {'x': <class 'int'>, 'y': <class 'int'>}\n8 __main__\ndef double(n):\n    return 2 * n\n['<string>', '--fast', 'ünïcode']\n"
