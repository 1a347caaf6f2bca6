"""Patches that wait for a module."""

import sys
import types

from _belljar.protocol import hooks


def test_every_action_for_a_module_is_done_once(tmp_path, monkeypatch):
    done = []

    def first(module):
        done.append(("first", module.value))

    def second(module):
        done.append(("second", module.value))

    (tmp_path / "waited_for.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [hooks._Finder, *sys.meta_path])
    for action in (first, second, first):
        hooks.when_imported("waited_for", action)
    import waited_for

    hooks.when_imported("waited_for", second)
    assert isinstance(waited_for, types.ModuleType)
    assert done == [("first", 7), ("second", 7)]


def test_the_host_is_asked_before_compiled_code_is_imported(door, monkeypatch):
    import pytest

    monkeypatch.setattr(sys, "meta_path", [hooks._Finder])
    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    with pytest.raises(ModuleNotFoundError, match="No module named 'numpy'"):
        __import__("numpy")
    assert door.of("m") == ["numpy"]

    monkeypatch.setattr(door, "call", lambda data: b"the tier core does not have it")
    with pytest.raises(ModuleNotFoundError, match="the tier core does not have it") as raised:
        __import__("numpy")
    assert raised.value.name == "numpy"

    monkeypatch.setattr(hooks, "_UNSURE", hooks._UNSURE)
    hooks.look_only()
    assert hooks._Finder.find_spec("numpy") is None


def test_a_host_that_does_not_understand_hinders_nothing(door):
    door.refuses = True
    assert hooks._Finder.find_spec("numpy") is None
