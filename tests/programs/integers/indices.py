# 64-bit integers are indices where each of them fits in 32 bits, and are never cut off.
import numpy as np
import pandas as pd


def refused(function, *args, **named):
    try:
        return function(*args, **named)
    except (IndexError, OverflowError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


big = np.array([2**32])
print(refused(np.repeat, [1, 2], big))
print(refused(np.bincount, big))
print(refused(np.bincount, np.array([2**63], dtype=np.uint64)))
print(refused(np.take, [1, 2], big))
print(refused(np.take, [1, 2], np.array([2**64 - 1], dtype=np.uint64)))
print(refused(np.put, np.arange(2), big, 1))
print(refused(np.choose, big, [[1], [2]]))
print(refused(np.add.reduceat, np.arange(3), big))
print(refused(np.searchsorted, [1], [1], sorter=big))
print(refused(pd.Series([1]).repeat, big))

print(refused(pd.Index([1]).repeat, big))
series, days = pd.Series([1, 2]), pd.date_range("2026-01-01", periods=2)
print(refused(lambda: series.iloc[[2**32]]), refused(lambda: series.to_frame().iloc[big]))
print(refused(series.take, big), refused(series.to_frame().take, [-(2**32)]))
print(refused(pd.Index([1, 2]).take, big), refused(days.take, big), refused(days.array.take, big))
print(refused(lambda: pd.Categorical([1, 2])[[2**32]]))
print(series.take(indices=[1, -2]).tolist(), series.iloc[pd.Series([1])].tolist(), days[[1]].day)

# What is no integer is refused as on Linux.
print(refused(np.repeat, [1, 2], np.array([1.5, 2])))
print(refused(np.bincount, np.array([1.0])))
print(refused(np.repeat, [1, 2], "x"))
print(refused(np.repeat, [1, 2], [None, 1]))

# What was fine is fine, in every layout.
print(np.repeat([1, 2], np.arange(6)[::3]), np.repeat([1, 2], np.array([1, 2], dtype=">i8")))
print(np.take([5, 6], np.array([[0, 1], [1, 0]]).T), np.take([5, 6], np.array(1)))
print(np.take([5, 6], np.array([], dtype=int)), np.bincount(np.array([], dtype=np.int64)))
print(np.take([5, 6], -np.arange(1, 3)), np.repeat(3, np.int64(2)))

# An array of the user's that is given for the result stays that array, and as wide as it is.
out = np.zeros((), dtype=np.intp)
print(np.argmax([1, 3, 2], out=out) is out, out.dtype)

# with image: data
# expect stdout: "OverflowError: Python int too large to convert to C ssize_t\nIndexError: Python int too large to convert to C ssize_t\nIndexError: Python int too large to convert to C ssize_t\nIndexError: Python int too large to convert to C ssize_t\nIndexError: Python int too large to convert to C ssize_t\nOverflowError: Python int too large to convert to C ssize_t\nOverflowError: Python int too large to convert to C ssize_t\nOverflowError: Python int too large to convert to C ssize_t\nValueError: could not parse sorter argument\nIndexError: Python int too large to convert to C ssize_t\nIndexError: Python int too large to convert to C ssize_t\nIndexError: positional indexers are out-of-bounds IndexError: positional indexers are out-of-bounds\nIndexError: indices are out-of-bounds IndexError: indices are out-of-bounds\nIndexError: Python int too large to convert to C ssize_t IndexError: indices are out-of-bounds IndexError: Python int too large to convert to C ssize_t\nIndexError: indices are out-of-bounds\n[2, 1] [2] Index([2], dtype='int32')\nTypeError: Cannot cast array data from dtype('float64') to dtype('int64') according to the rule 'safe'\nTypeError: Cannot cast array data from dtype('float64') to dtype('int64') according to the rule 'safe'\nValueError: invalid literal for int() with base 10: 'x'\nTypeError: int() argument must be a string, a bytes-like object or a real number, not 'NoneType'\n[2 2 2] [1 2 2]\n[[5 6]\n [6 5]] 6\n[] []\n[6 5] [3 3]\nTrue int32\n"
