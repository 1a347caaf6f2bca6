"""Evaluates every expression of expressions.txt, and writes what comes of it to found.json.

Modules of libraries are imported where an expression names them.

It runs in a sandbox and on the host, whose numpy is the measure.
"""

import collections
import concurrent.futures
import copy
import decimal
import fractions
import functools
import importlib
import io
import itertools
import json
import math
import pickle
import re
import statistics
import struct
import threading
import warnings

import numpy as np
import pandas as pd


MODULES = [
    collections,
    concurrent,
    copy,
    decimal,
    fractions,
    functools,
    io,
    itertools,
    json,
    math,
    pickle,
    statistics,
    struct,
    threading,
]

LIBRARIES = re.compile(r"\b(?:scipy|sklearn|statsmodels|networkx|joblib)(?:\.[a-z_]+)*")

# How floats are written: to ten digits, or exactly.
written = "{:.10g}".format


def exact():
    """Write all digits of floats."""
    global written
    written = float.__repr__


def described(value):
    """What matters of a value, as JSON: its kind, its type and what is in it."""
    if isinstance(value, np.ma.MaskedArray):
        return ["masked", str(value.dtype), described(value.tolist())]
    if isinstance(value, np.ndarray):
        return ["array", named(value.dtype), list(value.shape), plain(value.tolist())]
    if isinstance(value, np.generic):
        return ["scalar", named(value.dtype), plain(value.item())]
    if isinstance(value, pd.Series):
        return ["series", str(value.dtype), described(value.index), plain(value.tolist())]
    if isinstance(value, pd.DataFrame):
        columns = [described(value.iloc[:, at]) for at in range(value.shape[1])]
        return ["frame", plain(list(value.columns)), columns]
    if isinstance(value, pd.Index):
        return ["index", str(value.dtype), plain(value.tolist())]
    if isinstance(value, pd.api.extensions.ExtensionArray):
        return ["extension", str(value.dtype), plain(value.tolist())]
    if isinstance(value, np.dtype):
        return ["dtype", named(value)]
    if isinstance(value, type):
        return ["type", value.__name__]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(described, value)]
    if hasattr(value, "toarray"):
        return [type(value).__name__, str(value.dtype), described(value.toarray())]
    if written is float.__repr__:
        fields = parts(value)
        if fields is not None:
            return [type(value).__name__, {str(key): described(fields[key]) for key in fields}]
    return [type(value).__name__, plain(value)]


def parts(value):
    """What a dictionary, or an object that a library gives as its result, consists of."""
    if isinstance(value, dict):
        return value
    home = type(value).__module__.split(".")[0]
    if home in ("scipy", "statsmodels") and hasattr(value, "__dict__"):
        return {key: part for key, part in vars(value).items() if plainly(part)}
    return None


def plainly(part):
    plain = (bool, int, float, str, np.generic, np.ndarray, pd.Series, pd.DataFrame)
    return isinstance(part, plain)


def named(dtype):
    return str(dtype.descr) if dtype.names else str(dtype)


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return written(value)
    if isinstance(value, complex) and written is float.__repr__:
        return [written(value.real), written(value.imag)]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def told(expression, **state):
    """What numpy warns of, and what an expression gives where errors are handled like this."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(**state):
        warnings.simplefilter("always")
        value = outcome(expression)
    return [sorted(str(warning.message) for warning in caught), value]


def imported(expression):
    """The libraries that an expression names."""
    for path in LIBRARIES.findall(expression):
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            try:
                importlib.import_module(".".join(parts[:end]))
            except ModuleNotFoundError:
                break
        yield parts[0], importlib.import_module(parts[0])


def outcome(expression):
    names = {module.__name__: module for module in MODULES}
    names |= {"np": np, "pd": pd, "told": told}
    try:
        names |= imported(expression)
        return described(eval(compile(expression, expression, "eval"), names))
    except Exception as error:
        return ["raises", type(error).__name__]


def main():
    warnings.simplefilter("ignore")
    with open("expressions.txt") as file:
        lines = [line.strip() for line in file]
    if lines[0] == "# exact":
        exact()
    expressions = [line for line in lines if line and not line.startswith("#")]
    with open("found.json", "w") as file:
        json.dump({each: outcome(each) for each in expressions}, file)


if __name__ == "__main__":
    main()
