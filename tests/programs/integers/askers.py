# Whose code asks decides how wide an integer is: the user's, in whatever frame it runs.
import asyncio
import functools
import sys
import types

import numpy as np
import pandas as pd

ARCHIVE = "/usr/local/lib/python315.zip/"


def bits(array):
    return array.dtype.itemsize * 8


def compiled(filename, source="np.arange(3)"):
    return bits(eval(compile(source, filename, "eval"), {"np": np}))


def generator():
    yield bits(np.arange(1))


async def coroutine():
    await asyncio.sleep(0)
    return bits(np.arange(1))


class Lazy:
    @functools.cached_property
    def value(self):
        return bits(np.arange(1))

    def __array__(self, dtype=None, copy=None):
        return np.arange(2)

    def __lt__(self, other):
        return bool(np.arange(2).sum())

    def __del__(self):
        seen.append(bits(np.arange(1)))


class Own(np.ndarray):
    pass


seen = []
print(bits(np.arange(3)), (lambda: bits(np.arange(3)))(), [bits(np.arange(n)) for n in (1, 2)])
print(next(generator()), asyncio.run(coroutine()), Lazy().value)
print(bits(np.asarray(Lazy())), sorted([Lazy(), Lazy()])[0].value, seen[:1])
exec("print(bits(np.zeros(2, int)))")

# Names of files are only text.
print([compiled(name) for name in ("", "x", "<string>", "ü" * 40, "\U0001f600" * 40, "/" * 5000)])
print(compiled(ARCHIVE[:-1]), compiled("/usr/local/lib/python315.zip"), compiled("/packages/a.py"))
# Values are as wide in libraries, indices are not.
print(compiled(ARCHIVE + "pandas/core/frame.py"), compiled(ARCHIVE + "x.py"))
print(compiled(ARCHIVE + "x.py", "np.argsort([2, 1])"), compiled("x.py", "np.argsort([2, 1])"))
print(compiled(ARCHIVE + "numpy/lib/a.py"), compiled("<frozen os>"), compiled(ARCHIVE + "ü"))

# A module of the user, and one that stands for numpy's own.
module = types.ModuleType("mine")
exec("import numpy as np\nwide = np.arange(3).itemsize", module.__dict__)
print(module.wide)
code = (lambda: bits(np.arange(3))).__code__.replace(co_filename=ARCHIVE + "numpy/x.py")
print(types.FunctionType(code, globals())())

# Called back from C, from numpy and from pandas.
print(list(map(lambda n: bits(np.arange(n)), [1])), bits(np.frompyfunc(np.arange, 1, 1)(2)))
print(np.apply_along_axis(lambda row: bits(np.arange(3)), 0, np.zeros((2, 1))).tolist())
print(pd.Series([1]).apply(lambda x: bits(np.arange(3))).tolist())
print(pd.DataFrame({"a": [1]}).groupby("a").apply(lambda f: bits(np.arange(3))).tolist())
print(pd.Series([1, 2]).rolling(2).apply(lambda w: bits(np.arange(3))).tolist())
sys.setprofile(lambda frame, event, arg: seen.append(bits(np.arange(1))) if event == "call" else 0)
(lambda: None)()
sys.setprofile(None)
print(set(seen))

# Deep in frames.
print((deep := lambda n: deep(n - 1) if n else bits(np.arange(1)))(800))
print(bits(Own((1,), int)), bits(np.arange(3).view(Own).argsort()), bits(np.ma.arange(3)))

# with image: data
# expect stdout: "64 64 [64, 64]\n64 64 64\n64 64 [64]\n64\n[64, 64, 64, 64, 64, 64]\n64 64 64\n64 64\n32 64\n32 32 64\n8\n64\n[64] 64\n[64]\n[64]\n[64]\n[nan, 64.0]\n{64}\n64\n64 64 64\n"
