"""The bundle of the package `belljar-data`, which a runtime finds by itself."""

import pytest

import belljar
from belljar import _runtime
from belljar._runtime import _settled


@pytest.fixture
def bundle(monkeypatch, tmp_path):
    """The path of an installed bundle. Nothing else says where code comes from."""
    for name in ("BELLJAR_BUNDLE", "BELLJAR_BUNDLE_HASH", "BELLJAR_CACHE", "BELLJAR_WHEEL"):
        monkeypatch.delenv(name, raising=False)
    site = tmp_path / "site"
    described = site / "belljar_data-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: belljar-data\nVersion: 1.0\n")
    (site / "belljar_data").mkdir()
    (site / "belljar_data/__init__.py").write_text("raise AssertionError('was imported')\n")
    monkeypatch.syspath_prepend(str(site))
    return str(site / "belljar_data/bundle")


@pytest.fixture
def foreign(bundle, monkeypatch):
    """The same, for another machine. Gives the settings that the engine was asked for."""
    asked = []

    class Engine:
        @classmethod
        def build(cls, held, progress, is_async):
            asked.append(dict(held))
            if "bundle" in held:
                raise belljar.SetupError("it is for another processor", "bundle.foreign", "machine")
            if not is_async:
                return cls()

            async def later():
                return cls()

            return later()

        def close(self):
            pass

    monkeypatch.setattr(_runtime._belljar, "Runtime", Engine)
    return asked


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


def test_another_module_of_the_name_is_not_taken(bundle, monkeypatch, tmp_path):
    (tmp_path / "belljar_data.py").write_text("raise AssertionError('was imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert _settled({})[0] == {"bundle": bundle}
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert _settled({})[0] == {}
    monkeypatch.setattr("sys.path", [])
    assert _settled({})[0] == {}


async def test_a_bundle_for_another_machine_is_passed_over(foreign, bundle):
    with pytest.warns(RuntimeWarning, match=r"belljar-data .* another processor"):
        belljar.Runtime(concurrency=2)
    with pytest.warns(RuntimeWarning, match="belljar-data"):
        await belljar.Runtime.abuild(concurrency=2)
    assert foreign == [{"concurrency": 2, "bundle": bundle}, {"concurrency": 2}] * 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("named", ["bundle", "bundle_hash", "BELLJAR_BUNDLE_HASH"])
def test_what_is_named_is_not_passed_over(foreign, bundle, monkeypatch, named):
    settings = {named: bundle}
    if named.isupper():
        monkeypatch.setenv(named, "00")
        settings = {}
    with pytest.raises(belljar.SetupError) as caught:
        belljar.Runtime(**settings)
    assert caught.value.code == "bundle.foreign"
    assert len(foreign) == 1
