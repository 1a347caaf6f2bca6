"""The bundle of the package `belljar-data`, which a runtime finds by itself."""

import sys
import types

import pytest

import belljar
from belljar._runtime import _settled


@pytest.fixture
def bundle(monkeypatch, tmp_path):
    """The path of an installed bundle. Nothing else says where code comes from."""
    for name in ("BELLJAR_BUNDLE", "BELLJAR_CACHE", "BELLJAR_WHEEL"):
        monkeypatch.delenv(name, raising=False)
    module = types.ModuleType("belljar_data")
    module.BUNDLE = str(tmp_path / "bundle")
    monkeypatch.setitem(sys.modules, "belljar_data", module)
    return module.BUNDLE


def test_the_installed_bundle_is_used(bundle):
    assert _settled({})[0] == {"bundle": bundle}
    assert _settled({"concurrency": 2})[0] == {"concurrency": 2, "bundle": bundle}
    with pytest.raises(belljar.BelljarError, match="bundle") as caught:
        belljar.Runtime()
    assert caught.value.code.startswith("bundle.")


@pytest.mark.parametrize("name", ["bundle", "cache", "wheel"])
def test_what_is_named_comes_first(bundle, monkeypatch, name):
    assert _settled({name: "here"})[0] == {name: "here"}
    assert _settled({name: None})[0] == {"bundle": bundle}
    variable = f"BELLJAR_{name.upper()}"
    monkeypatch.setenv(variable, "there")
    assert _settled({})[0] == {}
    # As in Rust, an empty variable is a missing one.
    monkeypatch.setenv(variable, "")
    assert _settled({})[0] == {"bundle": bundle}


def test_without_the_package_there_is_none(bundle, monkeypatch):
    monkeypatch.setitem(sys.modules, "belljar_data", None)
    assert _settled({})[0] == {}


def test_a_broken_package_is_reported(bundle, monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "belljar_data")
    (tmp_path / "belljar_data.py").write_text("import missing_part_of_it\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="missing_part_of_it"):
        _settled({})
