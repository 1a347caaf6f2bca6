"""The program that compiles the modules of packages: the importer loads what it makes."""

import importlib.util
import pathlib
import sys
import warnings

import pytest

from conftest import _Host

PROGRAM = pathlib.Path(__file__).parent.parent / "linking" / "compile.py"


@pytest.fixture
def compiled(monkeypatch):
    """The code of each module by path, as the host gets it."""

    class Host:
        def __init__(self, modules):
            self.waiting, self.path, self.made = list(modules.items()), None, {}

        def call(self, frame):
            if frame == b"u":
                self.path, source = self.waiting.pop(0) if self.waiting else (None, b"")
                return b"" if self.path is None else self.path.encode() + b"\0" + source
            if frame[:1] == b"c":
                self.made[self.path] = frame[1:]
            return b""

    def run(modules):
        host = Host(modules)
        monkeypatch.setattr(_Host, "door", host)
        with warnings.catch_warnings():
            exec(compile(PROGRAM.read_text(), "<linking>", "exec"), {})
        return host.made

    return run


def test_the_importer_loads_the_code(compiled, tmp_path):
    path = tmp_path / "brewed.py"
    source = b"import sys\n\ndef where():\n    return __file__, sys._getframe().f_lineno\n"
    path.write_bytes(source)
    (made,) = compiled({str(path): source}).values()
    place = pathlib.Path(importlib.util.cache_from_source(str(path)))
    place.parent.mkdir()
    place.write_bytes(made)
    spec = importlib.util.spec_from_file_location("brewed", path)
    spec.loader.source_to_code = None  # it is not asked to compile
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.where() == (str(path), 4)
    assert module.where.__code__.co_filename == str(path)
    assert made[4:8] == b"\1\0\0\0"
    # Always the same bytes.
    assert compiled({str(path): source}) == {str(path): made}


def test_what_does_not_compile_is_left_out(compiled, recwarn):
    modules = {
        "/packages/template.py": b"{{ name }} = (",
        "/packages/binary.py": b"\0\xff",
        "/packages/old.py": b"# coding: latin-1\nname = '\xe4'\n",
        "/packages/escape.py": b"x = '\\d'\n",
        "/packages/deep.py": b"x = " + b"(" * 5_000 + b")" * 5_000,
    }
    assert list(compiled(modules)) == ["/packages/old.py", "/packages/escape.py"]
    assert not recwarn.list
    assert "template" not in sys.modules
