"""Indices returned by libraries, on a numpy whose addresses may have 64 bits."""

import types

import pytest

from _belljar.stand_ins import widened

numpy = pytest.importorskip("numpy")

MODULE = """
def factorize(values):
    return codes, values

class Index:
    def argsort(self):
        return codes

    @property
    def indices(self):
        return {1: codes}

    def get_indexer(self):
        return codes, codes
"""


def made(monkeypatch, asked, name="pandas.core.indexes.base", source=MODULE, act=widened.patch):
    """A mock library module, in a numpy whose user has indices of `asked` bits."""
    narrow, wide = numpy.dtype("int32"), numpy.dtype("int64")
    standin = types.SimpleNamespace(
        intp=numpy.int32,
        dtype=lambda name: narrow if name == "intp" else wide,
        arange=lambda stop: numpy.zeros(stop, f"int{asked}"),
        any=numpy.any,
        random=numpy.random,
        __file__="numpy/__init__.py",
    )
    monkeypatch.setitem(widened.sys.modules, "numpy", standin)
    module = types.ModuleType(name)
    module.__file__ = "library/module.py"
    exec(source, vars(module))
    module.codes = numpy.array([1, 0], narrow)
    act(module)
    return module


def test_the_user_has_indices_of_64_bits(monkeypatch):
    module = made(monkeypatch, 64)
    values = numpy.array([7], "int32")
    codes, same = module.factorize(values)
    assert codes.dtype == "int64"
    assert same is values
    index = module.Index()
    assert index.argsort().dtype == "int64"
    assert index.indices[1].dtype == "int64"
    assert [each.dtype for each in index.get_indexer()] == ["int64"] * 2
    assert module.Index.argsort.__name__ == "argsort"


def test_a_library_has_them_as_they_are(monkeypatch):
    module = made(monkeypatch, 32)
    assert module.Index().argsort() is module.codes


def test_where_an_address_has_64_bits_nothing_changes():
    module = types.ModuleType("pandas.core.indexes.base")
    exec(MODULE, vars(module))
    before = dict(vars(module.Index))
    widened.patch(module)
    assert dict(vars(module.Index)) == before


def test_named_tuples_dictionaries_and_generators_are_widened(monkeypatch):
    name = "scipy.stats._binned_statistic"
    source = """
import collections
Result = collections.namedtuple("Result", "statistic binnumber")
def binned_statistic(): return Result(0.5, codes)
"""
    result = made(monkeypatch, 64, name, source).binned_statistic()
    assert (result.statistic, result.binnumber.dtype) == (0.5, "int64")

    source = "def isotonic_regression(): return {'x': codes, 'blocks': codes}"
    result = made(monkeypatch, 64, "scipy.optimize._isotonic", source).isotonic_regression()
    assert (result["x"].dtype, result["blocks"].dtype) == ("int32", "int64")

    source = "class KFold:\n    def split(self): yield codes, codes"
    folds = list(made(monkeypatch, 64, "sklearn.model_selection._split", source).KFold().split())
    assert [each.dtype for each in folds[0]] == ["int64"] * 2


def test_fitted_attributes_are_wide_for_everybody(monkeypatch):
    source = "class DBSCAN:\n    def fit(self): self.labels_ = self.kept_ = codes; return self"
    module = made(monkeypatch, 32, "sklearn.cluster._dbscan", source, widened.keep)
    fitted = module.DBSCAN().fit()
    assert (fitted.labels_.dtype, fitted.kept_.dtype) == ("int64", "int32")
