"""numpy's names for its default integer, on a numpy whose addresses have 64 bits."""

import types

import pytest

from _belljar.stand_ins import integers

numpy = pytest.importorskip("numpy")


def test_where_an_address_has_64_bits_nothing_changes():
    core = numpy.ma.core
    before = {name: id(value) for name, value in vars(numpy).items()}
    count = core.MaskedArray.count.__code__
    integers.patch(numpy)
    integers.patch_masked(core)
    assert {name: id(value) for name, value in vars(numpy).items()} == before
    assert core.MaskedArray.count.__code__ is count


def test_a_name_in_a_function_is_replaced_by_another():
    space = types.SimpleNamespace(intp=1, int_=2)

    def counted():
        return space.intp

    integers._rename(counted, {"intp": "int_"})
    assert counted() == 2


def standin(size):
    """A mock numpy whose default integer has `size` bytes, depending on the caller."""
    module = types.ModuleType("standin")

    def usual(attr):
        raise AttributeError(attr)

    module.__getattr__ = usual
    module.__dir__ = lambda: ["array"]
    module.dtype = lambda of: types.SimpleNamespace(itemsize=size)
    module.int64, module.uint64 = "int64", "uint64"
    module.int_ = module.long = "int32"
    module.uint = module.ulong = "uint32"
    integers._answer_by_name(module)
    return module


def test_names_follow_who_asks():
    wide, narrow = standin(8), standin(4)
    assert (wide.int_, wide.uint, wide.long, wide.ulong) == ("int64", "uint64", "int64", "uint64")
    assert (narrow.int_, narrow.uint, narrow.long) == ("int32", "uint32", "int32")


def test_compiled_code_gets_a_c_long():
    module = standin(8)
    assert getattr(module, "long") == "int32"  # noqa: B009
    assert getattr(module, "int_") == "int64"  # noqa: B009


def test_other_names_are_what_they_were():
    module = standin(8)
    with pytest.raises(AttributeError, match="nothing"):
        module.nothing  # noqa: B018
    assert set(dir(module)) >= {"array", "int_", "uint", "long", "ulong"}


def test_a_compiled_function_gets_a_frame_of_its_library():
    module = types.ModuleType("graphs")
    module.__file__ = "/library/graphs.py"
    module.__all__ = ["compiled", "interpreted", "Class"]
    module.compiled = len
    module.interpreted = standin
    module.Class = dict
    integers.patch_graphs(module)
    assert module.compiled([1, 2]) == 2
    assert module.compiled.__code__.co_filename == "/library/graphs.py"
    assert module.compiled.__name__ == "len"
    assert module.interpreted is standin
    assert module.Class is dict
