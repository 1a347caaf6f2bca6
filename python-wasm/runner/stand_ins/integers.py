"""numpy's default integer in Python code of numpy: 64 bits wide for the user.

C code is changed in the module itself, depending on the caller: it walks over the frames, skipping
numpy's own, and `dtype(int)` returns the result. Functions here that depend on their caller pretend
to be in a file of numpy, to be skipped as well.
"""

import sys
from functools import wraps
from opcode import opmap
from types import FunctionType

_getframe = sys._getframe

# Instructions with which Python code reads an attribute of a module.
_READS = {opmap["LOAD_ATTR"], opmap["IMPORT_FROM"]}

# Functions of numpy that name the type of their results, with the replacements.
_COUNTS = {"intp": "int_"}
_RENAMED = {
    "numpy._core.numeric": {"count_nonzero": _COUNTS},
    "numpy.lib._arraysetops_impl": {"_unique1d": _COUNTS},
    "numpy.lib._histograms_impl": {
        "histogram": _COUNTS,
        # It looks up the 32-bit type under an obsolete name.
        "_unsigned_subtract": {"int_": "int32", "uint": "uint32"},
    },
}


def patch(numpy):
    """Make `numpy` behave as on a 64-bit platform, if addresses have 32 bits."""
    if numpy.intp(0).itemsize == 8:
        return
    for name, functions in _RENAMED.items():
        module = sys.modules[name]
        for function, names in functions.items():
            function = vars(module)[function]
            _rename(getattr(function, "_implementation", function), names)
    _answer_by_name(numpy)
    # The types that are omitted when an array is printed.
    shown = sys.modules["numpy._core.arrayprint"]._typelessdata
    shown[shown.index(numpy.dtype("intp").type)] = numpy.int64
    # The types that `genfromtxt` tries for a column, in order.
    tried = sys.modules["numpy.lib._iotools"].StringConverter._mapper
    tried[:] = [entry for entry in tried if entry[0] is not numpy.dtype("intp").type]


def patch_masked(core):
    """The same for the module `numpy.ma.core`."""
    if core.np.intp(0).itemsize != 8:
        _rename(core.MaskedArray.count, _COUNTS)


def patch_graphs(csgraph):
    """Let the compiled functions of `scipy.sparse.csgraph` count as library code.

    They have no frames, so the user, who calls them directly, would count as the caller; but some
    of them need indices as wide as an address.
    """
    for name in csgraph.__all__:
        function = getattr(csgraph, name)
        if callable(function) and not isinstance(function, type | FunctionType):
            setattr(csgraph, name, _framed(function, csgraph.__file__))


def patch_samples(random):
    """The same for a function of `sklearn.utils.random`, whose compiled code names `int`."""
    # A file outside of all libraries, where `int` has 64 bits.
    file = random.__file__.partition("sklearn/")[0] + "compiled.py"
    random.sample_without_replacement = _framed(random.sample_without_replacement, file)


def _framed(function, file):
    def framed(*args, **named):
        return function(*args, **named)

    framed.__code__ = framed.__code__.replace(co_filename=file)
    return wraps(function)(framed)


def _rename(function, names):
    code = function.__code__
    function.__code__ = code.replace(co_names=tuple(names.get(n, n) for n in code.co_names))


def _answer_by_name(numpy):
    """Make `numpy.int_` and similar names depend on the reader, like `int`."""
    usual, usual_dir = numpy.__getattr__, numpy.__dir__
    names = vars(numpy)
    narrow = {name: names.pop(name) for name in ("int_", "uint", "long", "ulong")}
    wide = {name: numpy.uint64 if name[0] == "u" else numpy.int64 for name in narrow}
    dtype = numpy.dtype

    def __getattr__(attr):  # noqa: N807
        if attr not in narrow:
            return usual(attr)
        # Compiled code called by the user reads the type of a C long, which is correct.
        frame = _getframe(1)
        if attr in ("long", "ulong") and frame.f_code.co_code[frame.f_lasti] not in _READS:
            return narrow[attr]
        return (narrow if dtype(int).itemsize == 4 else wide)[attr]

    def __dir__():  # noqa: N807
        return [*usual_dir(), *narrow]

    file = usual.__code__.co_filename
    for function in (__getattr__, __dir__):
        function.__code__ = function.__code__.replace(co_filename=file)
        setattr(numpy, function.__name__, function)
