"""Flags of loops over floats, by the rules of IEEE 754 for each element."""

import itertools
import math

import numpy as np

SPECIAL = [0.0, -0.0, 1.0, -3.5, math.inf, -math.inf, math.nan]
OPERATIONS = ["add", "subtract", "multiply", "divide"]
told = set()
np.seterrcall(lambda kind, bits: told.add(kind))
np.seterr(divide="call", over="call", invalid="call", under="ignore")


def expected(operation, a, b, result):
    """What one operation raises."""
    if math.isnan(result):
        return set() if math.isnan(a) or math.isnan(b) else {"invalid value"}
    if math.isinf(result) and math.isfinite(a) and math.isfinite(b):
        return {"divide by zero" if operation == "divide" and b == 0 else "overflow"}
    return set()


def compute(operation, a, b, dtype):
    """The result of one operation, which raises nothing."""
    with np.errstate(all="ignore"):
        return float(getattr(np, operation)(dtype.type(a), dtype.type(b)))


def check(what, found, wanted):
    if found != wanted:
        print(what, sorted(found), sorted(wanted))


def layouts(values, size, at, other, dtype):
    """Arrays of `size`, with `values` at one place and `other` everywhere else."""
    pairs = []
    for value in values:
        array = np.full(size, other, dtype)
        array[at] = value
        pairs.append(array)
    return pairs


def main():
    count = 0
    for dtype, operation in itertools.product(map(np.dtype, ["f4", "f8"]), OPERATIONS):
        ufunc = getattr(np, operation)
        large = float(np.finfo(dtype).max)
        small = 1 / 64
        values = [*SPECIAL, large, -large, small]
        for a, b in itertools.product(values, values):
            result = compute(operation, a, b, dtype)
            wanted = expected(operation, a, b, result)
            for size, at in [(7, 3), (17, 16), (64, 0), (67, 66), (1100, 700)]:
                count += 1
                x, y = layouts([a, b], size, at, 1.0, dtype)
                outs = {}
                told.clear()
                outs["plain"] = ufunc(x, y)
                check((operation, dtype.name, a, b, size, "plain"), set(told), wanted)
                told.clear()
                strided = np.ones(2 * size, dtype)
                strided[::2] = x
                outs["strided"] = ufunc(strided[::2], y)
                check((operation, dtype.name, a, b, size, "strided"), set(told), wanted)
                told.clear()
                outs["left"] = x.copy()
                ufunc(outs["left"], y, outs["left"])
                check((operation, dtype.name, a, b, size, "left in place"), set(told), wanted)
                told.clear()
                outs["right"] = y.copy()
                ufunc(x, outs["right"], outs["right"])
                check((operation, dtype.name, a, b, size, "right in place"), set(told), wanted)
                told.clear()
                outs["backwards"] = ufunc(x[::-1], y[::-1])[::-1]
                check((operation, dtype.name, a, b, size, "backwards"), set(told), wanted)
                told.clear()
                shifted = np.ones(size + 1, dtype)
                shifted[:-1] = x
                ufunc(shifted[:-1], y, shifted[1:])
                check((operation, dtype.name, a, b, size, "shifted"), set(told), wanted)
                outs["shifted"] = shifted[1:]
                one = float(ufunc(dtype.type(1), dtype.type(1)))
                for name, out in outs.items():
                    right = np.full(size, one, dtype)
                    right[at] = result
                    if not np.array_equal(out, right, equal_nan=True):
                        print("wrong", operation, dtype.name, a, b, size, name)
            # One number and an array.
            for size in (5, 40):
                both = expected(operation, a, b, result)
                rest = expected(operation, a, 1.0, compute(operation, a, 1.0, dtype))
                y = np.ones(size, dtype)
                y[2] = b
                told.clear()
                ufunc(dtype.type(a), y)
                check((operation, dtype.name, a, b, size, "number left"), set(told), both | rest)
                rest = expected(operation, 1.0, b, compute(operation, 1.0, b, dtype))
                y = np.ones(size, dtype)
                y[2] = a
                told.clear()
                ufunc(y, dtype.type(b))
                check((operation, dtype.name, a, b, size, "number right"), set(told), both | rest)
                told.clear()
                ufunc(y, dtype.type(b), y)
                check((operation, dtype.name, a, b, size, "number in place"), set(told), both | rest)
    sums()
    casts()
    print(count)


def sums():
    """Sums raise what their steps raise, in numpy's order."""
    for dtype in map(np.dtype, ["f4", "f8"]):
        large = float(np.finfo(dtype).max)
        for size in (10, 100, 1000):
            for special, wanted in [
                ({3: math.nan}, set()),
                ({3: math.inf}, set()),
                ({0: math.inf}, set()),
                ({3: math.inf, 9: math.inf}, set()),
                ({3: math.inf, 9: -math.inf}, {"invalid value"}),
                ({0: math.inf, 9: -math.inf}, {"invalid value"}),
                ({1: large, size - 1: large}, {"overflow"}),
                ({1: large, 2: math.nan}, set()),
                ({3: math.nan, 5: math.inf}, set()),
            ]:
                x = np.ones(size, dtype)
                for at, value in special.items():
                    x[at] = value
                told.clear()
                total = x.sum()
                check(("sum", dtype.name, size, special), set(told), wanted)
                if not math.isnan(total) and "invalid value" in wanted:
                    print("wrong sum", special)
                told.clear()
                x.cumsum()
                ways = set(told)
                if wanted - ways - {"overflow"}:
                    print("cumsum", dtype.name, size, special, ways)
        # Two columns that are summed up in parallel.
        told.clear()
        np.full((3, 100), large, dtype).sum(axis=0)
        check(("columns", dtype.name), set(told), {"overflow"})


def casts():
    for size in (5, 16, 33, 1000):
        for at in (0, size // 2, size - 1):
            for source, target, value, wanted in [
                ("f8", "f4", 1e300, {"overflow"}),
                ("f8", "f4", 1e30, set()),
                ("f8", "f4", math.inf, set()),
                ("f8", "f4", math.nan, set()),
                ("f8", "i8", 1e300, {"invalid value"}),
                ("f8", "i8", -(2.0**63), set()),
                ("f8", "i8", 2.0**63, {"invalid value"}),
                ("f8", "i8", math.nan, {"invalid value"}),
                ("f8", "i4", 2.0**31, {"invalid value"}),
                ("f8", "i4", -(2.0**31), set()),
                ("f4", "i4", 2.0**31, {"invalid value"}),
                ("f4", "i8", 2.0**62, set()),
                ("f4", "i8", math.inf, {"invalid value"}),
            ]:
                x = np.full(size, 2.0, source)
                x[at] = value
                told.clear()
                y = x.astype(target)
                check((source, target, value, size, at), set(told), wanted)
                if size > 1 and y[at - 1] != 2:
                    print("wrong cast", source, target)


main()

# expect stdout: "4000\n"
