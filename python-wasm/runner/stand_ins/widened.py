"""Makes indices returned by libraries 64 bits wide for the user's code.

Compiled code of the libraries takes indices as wide as an address, so libraries that call these
functions get the indices unchanged. The user's code gets 64-bit copies: `arange` finds out the
caller, as for numpy's own indices. The wrapper pretends to be in a file of numpy, so that the
search for the caller skips it.

pandas casts indices unconditionally where it takes rows; those that do not fit are rejected before.

Attributes that `fit` sets on an estimator have 64 bits for all readers: compiled code has used them
by then.
"""

import sys
from functools import wraps
from types import FunctionType, GeneratorType

from _belljar.protocol import hooks

# Functions and methods of pandas, with the item of their result (a tuple or dictionary) to widen:
# without one, all of it.
_PANDAS = {
    "argsort": None,
    "searchsorted": None,
    "get_indexer": None,
    "get_indexer_for": None,
    "get_indexer_non_unique": None,
    "get_slice_bound": None,
    "indices": None,
    "factorize": 0,
    "sortlevel": 1,
    "reindex": 1,
    "cut": None,
    "qcut": None,
}
_IN_PANDAS = """
    algorithms base series groupby.groupby reshape.tile
    indexes.base indexes.range indexes.multi indexes.interval indexes.category
    arrays.base arrays._mixins arrays.masked arrays.categorical arrays.interval arrays.datetimelike
    arrays.period arrays.string_ arrays.sparse.array
""".split()

# The same by module.
_GIVEN = {
    **{f"pandas.core.{module}": _PANDAS for module in _IN_PANDAS},
    "scipy.signal._peak_finding": {
        "find_peaks": None,
        "find_peaks_cwt": None,
        "argrelmin": None,
        "argrelmax": None,
        "argrelextrema": None,
    },
    "scipy.cluster.vq._vq_impl": {"py_vq": 0, "_py_vq": 0},
    "scipy.linalg._decomp_ldl": {"ldl": 2},
    "scipy.ndimage._measurements": {"value_indices": None},
    "scipy.optimize._isotonic": {"isotonic_regression": "blocks"},
    **{
        f"scipy.sparse.{module}": {"count_nonzero": None}
        for module in ("_base", "_compressed", "_coo", "_data", "_dia", "_dok", "_lil")
    },
    "scipy.spatial._kdtree": {"query": 1},
    "scipy.stats._binned_statistic": {
        "binned_statistic": None,
        "binned_statistic_2d": None,
        "binned_statistic_dd": None,
    },
    "scipy.stats._multivariate": {"rvs": None},
    "sklearn.metrics.pairwise": {
        "pairwise_distances_argmin": None,
        "pairwise_distances_argmin_min": 0,
    },
    "sklearn.neighbors._base": {"kneighbors": None},
    "sklearn.feature_selection._base": {"get_support": None},
    "sklearn.base": {"fit_predict": None},
    "sklearn.cluster._dbscan": {"fit_predict": None, "dbscan": None},
    "sklearn.cluster._agglomerative": {"ward_tree": None, "linkage_tree": None},
    "sklearn.cluster._affinity_propagation": {"predict": None, "fit_predict": None},
    "sklearn.cluster._mean_shift": {"predict": None},
    "sklearn.mixture._base": {"predict": None, "fit_predict": None},
    "sklearn.model_selection._split": {"split": None},
    "sklearn.neighbors._ball_tree": {"query": 1},
    "sklearn.neighbors._kd_tree": {"query": 1},
    "sklearn.svm._classes": {"predict": None},
    "sklearn.tree._classes": {"apply": None},
    "statsmodels.tools.grouputils": {"combine_indices": None},
    "statsmodels.tsa.arima_process": {"lpol2index": 1},
    "statsmodels.tsa.vector_ar.util": {"eigval_decomp": 2},
}

# Functions that return 64 bits to libraries, too: another function passes on their results.
_ALWAYS = {"_py_vq"}

# By module, the fitting method and the attributes that it sets.
_FITTED = {
    "sklearn.cluster._affinity_propagation": ("fit", "cluster_centers_indices_", "labels_"),
    "sklearn.cluster._agglomerative": ("fit", "children_", "labels_"),
    "sklearn.cluster._dbscan": ("fit", "core_sample_indices_", "labels_"),
    "sklearn.cluster._hdbscan.hdbscan": ("fit", "labels_"),
    "sklearn.cluster._optics": ("fit", "cluster_hierarchy_"),
    "sklearn.impute._base": ("_fit", "features_"),
}

# Functions and methods of pandas that cast their second argument to indices unconditionally.
_TAKEN = {
    "pandas.core.generic": "take",
    "pandas.core.indexes.datetimelike": "take",
    "pandas.core.indexers.utils": "check_array_indexer",
}


def install():
    """Wrap the functions when their modules are imported."""
    for module in _GIVEN:
        hooks.when_imported(module, patch)
    for module in _FITTED:
        hooks.when_imported(module, keep)
    for module in _TAKEN:
        hooks.when_imported(module, check)


def patch(module):
    """Wrap functions and methods of a module that return indices."""
    numpy = sys.modules["numpy"]
    if numpy.intp(0).itemsize == 8:
        return
    names = vars(module)
    for owner in [module, *(value for value in names.values() if isinstance(value, type))]:
        for attribute, item in _GIVEN[module.__name__].items():
            value = vars(owner).get(attribute)
            if value is None and _is_compiled(owner, attribute):
                setattr(owner, attribute, _widening(numpy, getattr(owner, attribute), item))
                continue
            function = value.fget if isinstance(value, property) else value
            if not isinstance(function, FunctionType):
                continue
            # Not those imported from another module, which decorators and names may hide.
            if function.__globals__ is not names and function.__module__ != module.__name__:
                continue
            wrapped = _widening(numpy, function, item)
            if isinstance(value, property):
                wrapped = property(wrapped, doc=value.__doc__)
            setattr(owner, attribute, wrapped)


def _is_compiled(owner, attribute):
    """Whether a Python class inherits the method from a compiled class."""
    if not (isinstance(owner, type) and owner.__flags__ & 1 << 9):
        return False
    return type(getattr(owner, attribute, None)).__name__ == "cython_function_or_method"


def keep(module):
    """Wrap fitting methods of a module."""
    numpy = sys.modules["numpy"]
    if numpy.intp(0).itemsize == 8:
        return
    method, *attributes = _FITTED[module.__name__]
    for owner in [value for value in vars(module).values() if isinstance(value, type)]:
        function = vars(owner).get(method)
        if isinstance(function, FunctionType) and function.__module__ == module.__name__:
            setattr(owner, method, _fitting(numpy, function, attributes))


def check(module):
    """Wrap functions and methods of a module that cast indices unconditionally."""
    numpy = sys.modules["numpy"]
    if numpy.intp(0).itemsize == 8:
        return
    attribute = _TAKEN[module.__name__]
    for owner in [module, *(v for v in vars(module).values() if isinstance(v, type))]:
        function = vars(owner).get(attribute)
        if isinstance(function, FunctionType) and function.__globals__ is vars(module):
            setattr(owner, attribute, _checking(numpy, function))


def _checking(numpy, function):
    # A pandas function that rejects indices that do not fit.
    ensure = sys.modules["pandas._libs.algos"].ensure_platform_int
    parameter = function.__code__.co_varnames[1]

    def checked(indices):
        if isinstance(indices, list) or hasattr(indices, "__array__"):
            given = numpy.asarray(indices)
            if given.dtype.kind in "iu" and given.dtype.itemsize == 8:
                try:
                    return ensure(given.astype("int64", copy=False))
                except IndexError:
                    raise IndexError("indices are out-of-bounds") from None
        return indices

    def checking(*args, **named):
        if len(args) > 1:
            args = (args[0], checked(args[1]), *args[2:])
        elif parameter in named:
            named[parameter] = checked(named[parameter])
        return function(*args, **named)

    checking.__code__ = checking.__code__.replace(co_filename=function.__code__.co_filename)
    return wraps(function)(checking)


def _fitting(numpy, function, attributes):
    narrow, wide = numpy.dtype("intp"), numpy.dtype("int64")

    def fitting(self, *args, **named):
        given = function(self, *args, **named)
        names = vars(self)
        for attribute in attributes:
            value = names.get(attribute)
            if getattr(value, "dtype", None) == narrow:
                names[attribute] = value.astype(wide)
        return given

    fitting.__code__ = fitting.__code__.replace(co_filename=function.__code__.co_filename)
    return wraps(function)(fitting)


def _widening(numpy, function, item):
    arange, narrow, wide = numpy.arange, numpy.dtype("intp"), numpy.dtype("int64")
    always = function.__name__ in _ALWAYS

    def widening(*args, **named):
        given = function(*args, **named)
        if not always and arange(0).itemsize == 4:
            return given
        if item is None:
            return widened(given)
        if isinstance(given, dict):
            given[item] = widened(given[item])
            return given
        if type(given) is tuple:
            return tuple(widened(v) if at == item else v for at, v in enumerate(given))
        return given

    def widened(value):
        if getattr(value, "dtype", None) == narrow:
            return value.astype(wide)
        if isinstance(value, tuple) and (type(value) is tuple or hasattr(value, "_make")):
            make = getattr(value, "_make", tuple)
            return make(widened(v) for v in value)
        if type(value) is dict:
            return {key: widened(v) for key, v in value.items()}
        if type(value) is GeneratorType:
            return (widened(v) for v in value)
        return value

    widening.__code__ = widening.__code__.replace(co_filename=numpy.__file__)
    return wraps(function)(widening)
