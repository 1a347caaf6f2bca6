"""Patches that wait for a module."""

import sys
import types

from _belljar import hooks


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
