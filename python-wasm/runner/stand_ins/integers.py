"""numpy's default integer where Python code of numpy decides it: 64 bits wide for the user.

What C code decides is changed in the module itself, by who asks: there is a walk over the frames
that passes over numpy's own, and `dtype(int)` tells what it comes to. The functions here that ask
for their caller have a file of numpy as their own, so that they are passed over, too.
"""

import sys
from functools import wraps
from opcode import opmap
from types import FunctionType

_getframe = sys._getframe

# Instructions by which Python code itself reads an attribute of a module.
_READS = {opmap["LOAD_ATTR"], opmap["IMPORT_FROM"]}

# Functions of numpy that name the type of their results, and what they name instead.
_COUNTS = {"intp": "int_"}
_RENAMED = {
    "numpy._core.numeric": {"count_nonzero": _COUNTS},
    "numpy.lib._arraysetops_impl": {"_unique1d": _COUNTS},
    "numpy.lib._histograms_impl": {
        "histogram": _COUNTS,
        # It looks up what is 32 bits wide, under a name that is not any more.
        "_unsigned_subtract": {"int_": "int32", "uint": "uint32"},
    },
}


def patch(numpy):
    """Make `numpy`, where an address has 32 bits, what it is where one has 64."""
    if numpy.intp(0).itemsize == 8:
        return
    for name, functions in _RENAMED.items():
        module = sys.modules[name]
        for function, names in functions.items():
            function = vars(module)[function]
            _rename(getattr(function, "_implementation", function), names)
    _answer_by_name(numpy)
    # The types that go without saying when an array is shown.
    shown = sys.modules["numpy._core.arrayprint"]._typelessdata
    shown[shown.index(numpy.dtype("intp").type)] = numpy.int64
    # What `genfromtxt` tries for a column, in this order.
    tried = sys.modules["numpy.lib._iotools"].StringConverter._mapper
    tried[:] = [entry for entry in tried if entry[0] is not numpy.dtype("intp").type]


def patch_masked(core):
    """The same for the module `numpy.ma.core`."""
    if core.np.intp(0).itemsize != 8:
        _rename(core.MaskedArray.count, _COUNTS)


def patch_graphs(csgraph):
    """Let the compiled functions of `scipy.sparse.csgraph` ask as the library that they are.

    They have no frames, so that the user, who calls them directly, would ask in their place; and
    some want indices as wide as an address from numpy.
    """
    for name in csgraph.__all__:
        function = getattr(csgraph, name)
        if callable(function) and not isinstance(function, type | FunctionType):
            setattr(csgraph, name, _framed(function, csgraph.__file__))


def patch_samples(random):
    """The same for a function of `sklearn.utils.random`, whose compiled code names `int`."""
    # A file of no library whose `int` has 64 bits.
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
    """Let `numpy.int_` and its like be what the one who reads them has for `int`."""
    usual, usual_dir = numpy.__getattr__, numpy.__dir__
    names = vars(numpy)
    narrow = {name: names.pop(name) for name in ("int_", "uint", "long", "ulong")}
    wide = {name: numpy.uint64 if name[0] == "u" else numpy.int64 for name in narrow}
    dtype = numpy.dtype

    def __getattr__(attr):  # noqa: N807
        if attr not in narrow:
            return usual(attr)
        # Compiled code that is called by the user reads the type of a C long, which it is.
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
