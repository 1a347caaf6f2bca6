"""The texts of arguments: integers whose sums and products do not fit in 32 bits, in many forms."""

# Four values each. Sums, products, single values or differences pass 2^31.
LISTS = [
    "[2_000_000_000, 1_500_000_000, 7, 100_000]",
    "[100_000, 300_000, 70_000, 200_000]",
    "[50_000, 70_000_000, 2**31, 3_000_000_000]",
    "[2**31 - 1, 2**31, 2**32 + 1, 3]",
    "[-3_000_000_000, 2**40, 5, -7]",
    "[60_000, 60_000, 60_001, 2]",
    "[2_000_000_000, 1.5, True, 4]",
    "[-(2**31), -2_000_000_000, -100_000, 1]",
    "[2**53 + 1, -(2**53), 2**52, 3]",
    "[True, False, 2_000_000_000, 2**31]",
    "[2**62, 2**62 - 1, -(2**63), 1]",
]

# Two rows of two, square for linear algebra.
TABLES = [
    "[[100_000, 200_000], [300_000, 50_001]]",
    "[[2_000_000_000, 1], [1_500_000_000, 2]]",
    "[[2**31, 3], [5, -2_000_000_000]]",
    "[[2**32 + 1, 70_000], [70_000, 2**33]]",
    "[[100_000, 2.5], [True, 3_000_000_000]]",
]

SCALARS = ["3_000_000_000", "100_000", "2**31", "-2_147_483_649", "2**53 + 1", "65_536"]


def tuple_of(text):
    """A list's text as that of a tuple."""
    return text.replace("[", "(").replace("]", ")")


def series(text):
    return f"pd.Series({text})"


def array(text):
    return f"np.array({text})"


def narrow(text):
    """What has 32 bits because the caller says so: sums have 64 all the same."""
    return f"np.array({text}, dtype=np.int32)"


# How an argument is handed in: the texts to choose from, and what is made of one.
FORMS = [
    ("list", LISTS, str),
    ("table", TABLES, str),
    ("tuple", LISTS, tuple_of),
    ("scalar", SCALARS, str),
    ("series", LISTS, series),
    ("array", LISTS, array),
    ("rows", TABLES, array),
    ("narrow", LISTS[1:2] + LISTS[5:6] + LISTS[7:8], narrow),
]

# Arguments by the parameter's name.
NAMED = {
    "axis": ["0"], "axes": ["0"], "ddof": ["1"], "keepdims": ["True"], "n": ["2"], "k": ["1"],
    "q": ["0.5"], "p": ["2"], "deg": ["1"], "degree": ["2"], "order": ["2"], "func": ["np.sum"],
    "function": ["np.prod"], "arg": ['"sum"'], "f": ["np.sum"], "func1d": ["np.sum"],
    "pyfunc": ["lambda *args: args[0] * 3"], "dtype": ["int"], "shape": ["(4,)", "4", "(2, 2)"],
    "newshape": ["(2, 2)"], "new_shape": ["(2, 2)"], "reps": ["2"], "repeats": ["2"],
    "shift": ["1"], "num": ["5"], "start": ["2**31"], "stop": ["2**31 + 9"], "step": ["3"],
    "fill_value": ["3_000_000_000"], "indices_or_sections": ["2"], "decimals": ["-4"],
    "nbins": ["3"], "bins": ["3"], "numbins": ["3"], "N": ["4"], "M": ["4"], "window": ["2"],
    "window_length": ["3"], "polyorder": ["1"], "size": ["2"], "footprint": ["[1, 1]"],
    "rank": ["0"], "percentile": ["50"], "weights": ["[100_000, 2, 3, 4]"], "structure": ["None"],
    "sigma": ["1"], "widths": ["[1, 2]"], "m": ["2"], "fs": ["1"], "up": ["2"], "down": ["1"],
    "pvals": ["[0.5, 0.5]"], "loc": ["0"], "key": ['"a"'], "by": ['"k"'], "level": ["0"],
    "periods": ["1"], "lower": ["5"], "upper": ["2**31"], "threshold": ["2**31"],
    "to_replace": ["7"], "value": ["2**33"], "mapper": ["lambda x: x * 100_000"],
    "cond": ["lambda x: x > 5"], "expr": ['"a * b"'], "freq": ['"D"'], "left": ["5"],
    "right": ["2**33"], "before": ["1"], "after": ["2"], "old": ["2"], "lag": ["1"],
    "maxlag": ["1"], "nlags": ["2"], "method": ['"linear"'], "quantile": ["0.5"],
    "quantiles": ["[0.25, 0.5]"], "columns": ['["a", "b"]'], "index": ["[0, 1, 2, 3]"],
    "item": ['"a"'], "labels": ["[0]"], "indices": ["[0, 2]"], "ind": ["[0, 2]"],
    "n_classes": ["2"], "random_state": ["0"], "n_bins": ["3"], "kth": ["1"], "mode": ['"wrap"'],
    "degrees": ["2"], "nan": ["3"], "lmbda": ["0.5"], "lam": ["2"], "nobs": ["[10**10, 4]"],
    "rtol": ["0.1"], "tol": ["0.1"], "i": ["0"], "j": ["1"], "axis1": ["0"], "axis2": ["1"],
    "source": ["0"], "destination": ["1"], "subscripts": ['"i,i->"'], "alpha": ["0.05"],
    "numeric_only": ["True"], "min_count": ["1"], "skipna": ["False"], "com": ["1"],
    "halflife": ["1"], "span": ["2"], "high": ["2**33"], "low": ["2**32"], "ngood": ["10**8"],
    "nbad": ["10**8"], "nsample": ["10**4"], "condlist": ["[[True, False, True, False]]"],
    "cutoff": ["0.1"], "kernel_size": ["3"], "n_lags": ["1"], "trend": ['"c"'],
}  # fmt: skip
