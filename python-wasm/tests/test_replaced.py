"""Packages of an image that replace the library's."""

import importlib.metadata
import sys
import zipfile
import zipimport

import pytest

from _belljar.protocol import hooks, replaced


@pytest.fixture
def library(tmp_path, monkeypatch):
    """An archive with two packages, before a folder with another version of one, on the path."""
    archive, packages = tmp_path / "library.zip", tmp_path / "packages"
    with zipfile.ZipFile(archive, "w") as files:
        for name in ("steep", "kept"):
            files.writestr(f"{name}/__init__.py", "version = 1")
            files.writestr(f"{name}/old.py", "")
            files.writestr(f"{name}-1.dist-info/METADATA", f"Name: {name}\nVersion: 1\n")
        files.writestr("steep_more.py", "")
        files.writestr("steeply.py", "")
        files.writestr("My_Tea-1.dist-info/METADATA", "Name: my.tea\nVersion: 1\n")
    for name in ("steep", "kept"):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text("version = 2")
        (packages / f"{name}-2.dist-info").mkdir()
        metadata = packages / f"{name}-2.dist-info" / "METADATA"
        metadata.write_text(f"Name: {name}\nVersion: 2\n")
    monkeypatch.setattr(sys, "path", [str(archive), str(packages)])
    monkeypatch.setattr(replaced, "_ARCHIVE", str(archive))
    monkeypatch.setattr(replaced, "_packages", set())
    monkeypatch.setattr(replaced, "_modules", set())
    monkeypatch.setattr(hooks, "_UNSURE", frozenset(("steep", "kept")))
    monkeypatch.setattr(zipimport, "_read_directory", zipimport._read_directory)
    path = importlib.metadata.FastPath
    monkeypatch.setattr(path, "zip_children", path.zip_children)
    monkeypatch.setattr(hooks, "_asked", set())
    assert importlib.metadata.version("steep") == "1"
    yield archive
    for name in [name for name in sys.modules if name.startswith(("steep", "kept"))]:
        del sys.modules[name]


def found(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def test_a_hidden_package_is_another(library):
    assert found("steeply") is not None
    replaced.hide([("my-tea", ["steep_more"]), ("steep", ["steep"])])
    path = importlib.metadata.FastPath
    path.__new__.cache_clear()
    for _ in range(2):
        assert found("steep").version == 2
        assert found("steep.old") is found("steep_more") is None
        importlib.invalidate_caches()
        del sys.modules["steep"]
    assert (found("kept").version, found("kept.old") is None) == (1, False)
    assert found("steeply") is not None
    versions = [(one.name, one.version) for one in importlib.metadata.distributions()]
    assert sorted(versions) == [("kept", "1"), ("kept", "2"), ("steep", "2")]
    assert importlib.metadata.version("steep") == "2"
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("my-tea")
    assert [replaced.is_replaced(name) for name in ("steep", "kept")] == [True, False]


def test_the_host_is_not_asked_about_a_hidden_package(library, door):
    replaced.hide([("steep", ["steep"])])
    assert (found("steep").version, found("kept").version) == (2, 1)
    assert sorted(hooks._UNSURE) == ["kept"]
