"""Tests of the builder that need no compiler."""

import base64
import configparser
import csv
import hashlib
import io
import json
import os
import sys
import tarfile
import tomllib
import zipfile
from contextlib import nullcontext
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

import compiler
import kept
import modules
import recipe
import rust
import toolchain
import wasm
import wheel
from build import build_environment, refuse_failures, run_command, settings_of, wanted


def section(kind, body, name=None):
    if name is not None:
        body = wasm.text(name) + body
    return bytes([kind]) + wasm.number(len(body)) + body


def extension(imports=(), data=(), export="PyInit_x"):
    """Returns a module with functions as imports and undefined symbols of data."""
    body = wasm.number(len(imports))
    for module, name in imports:
        body += wasm.text(module) + wasm.text(name) + b"\0\0"
    exports = b"\1" + wasm.text(export) + b"\0\0"
    table = wasm.number(len(data))
    for name, flags in data:
        table += bytes([wasm.DATA]) + wasm.number(flags) + wasm.text(name)
    linking = b"\2" + bytes([wasm.SYMBOL_TABLE]) + wasm.number(len(table)) + table
    return (
        b"\0asm\1\0\0\0" + section(2, body) + section(7, exports) + section(0, linking, "linking")
    )


def packed(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def plan(**values):
    return recipe.Plan("x", "1", values, Path())


INFO = {"x-1.dist-info/WHEEL": "Wheel-Version: 1.0\nTag: cp311-cp311-linux\n"}


def test_numbers_are_read_as_they_are_written():
    for value in (0, 1, 127, 128, 300, 1 << 31, (1 << 32) - 1):
        assert wasm.Reader(wasm.number(value)).number() == value


def test_an_extension_that_fits_has_no_problem():
    data = extension([("env", "PyLong_FromLong")], [("PyExc_ValueError", 0x10), ("errno", 0x10)])
    here = {"PyLong_FromLong", "PyExc_ValueError", "errno"}
    assert wheel.check(data, here) == []


@pytest.mark.parametrize(
    ("imports", "data", "missing"),
    [
        ([("env", "fork")], [], "fork"),
        ([("wasi_snapshot_preview1", "sock_send")], [], "wasi_snapshot_preview1.sock_send"),
        ([], [("_PyRuntime", 0x10)], "_PyRuntime"),
        ([], [("PyUnknown_Type", 0x10)], "PyUnknown_Type"),
    ],
)
def test_what_is_missing_is_named(imports, data, missing):
    problems = wheel.check(extension(imports, data), {"PyLong_FromLong"})
    assert problems == [f"not in the sandbox's Python: {missing}"]


def test_a_weak_reference_may_be_missing():
    assert wheel.check(extension(data=[("maybe", 0x11)]), set()) == []


def test_a_wheel_gets_the_names_of_the_sandbox(tmp_path):
    built = extension(export="PyInit__y")
    files = {"x/__init__.py": "", "x/_y.cpython-311-linux.so": built, **INFO}
    made = packed(tmp_path / "x-1-cp311-cp311-linux.whl", files)
    out = wheel.finish(made, set(), tmp_path)
    assert out.name == "x-1-cp315-cp315-belljar_wasm32.whl"
    with zipfile.ZipFile(out) as archive:
        module = archive.read("x/_y.cpython-315-belljar_wasm32.wasm")
        text = archive.read("x-1.dist-info/WHEEL").decode()
        rows = list(csv.reader(io.StringIO(archive.read("x-1.dist-info/RECORD").decode())))
    assert module == built
    assert text.count("Tag:") == 1
    assert "Tag: cp315-cp315-belljar_wasm32" in text
    digest = base64.urlsafe_b64encode(hashlib.sha256(module).digest()).rstrip(b"=").decode()
    assert ["x/_y.cpython-315-belljar_wasm32.wasm", f"sha256={digest}", str(len(module))] in rows


def test_a_wheel_has_the_licenses_of_further_sources(tmp_path):
    made = packed(tmp_path / "x-1-cp311-cp311-linux.whl", {"x.so": extension(), **INFO})
    (tmp_path / "COPYING").write_text("LGPL")
    out = wheel.finish(made, set(), tmp_path, {"geos/COPYING": tmp_path / "COPYING"})
    with zipfile.ZipFile(out) as archive:
        assert archive.read("x-1.dist-info/licenses/geos/COPYING") == b"LGPL"


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"x.py": ""}, "pure Python"),
        ({"x.so": b"\x7fELF....", "y.so": extension()}, "compiled for this machine"),
        ({"y.so": extension()}, "does not define PyInit_y"),
        ({"x.so": extension(export="f")}, "does not define PyInit_x"),
        ({"y/__init__.so": extension()}, "does not define PyInit_y"),
    ],
)
def test_other_wheels_are_refused(tmp_path, files, problem):
    made = packed(tmp_path / "x-1-cp311-cp311-linux.whl", {**files, **INFO})
    with pytest.raises(toolchain.BuildError, match=problem):
        wheel.finish(made, set(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [made.name]


def test_the_compiler_leaves_out_what_means_this_machine():
    given = ["-O3", "-march=native", "-fPIC", "-arch", "arm64", "-I/usr/include/python3.11"]
    given += ["-I", "/usr/include/python3.11", "-I", "/y"]
    given += ["-I/x/include", "-pthread", "-Wl,-z,now", "-DX=1", "a.c"]
    assert compiler.kept(given) == ["-O3", "-I/y", "-I/x/include", "-DX=1", "a.c"]


def test_a_module_is_made_by_the_function_of_its_name():
    exported = ["PyInit_x", "PyInit_within"]
    assert compiler.initializer_of("deps/x.wasm", exported) == "PyInit_x"
    assert compiler.initializer_of("deps/libx.wasm", exported[::-1]) == "PyInit_x"
    assert compiler.initializer_of("deps/z.wasm", ["PyInit_x"]) == "PyInit_x"
    assert compiler.initializer_of("y.cpython-315.wasm", []) == "PyInit_y"


def object_file(imports, symbols):
    """Returns an object file with these imported functions and symbols of functions."""
    table = wasm.number(len(symbols))
    for flags, index, name in symbols:
        table += bytes([wasm.FUNCTION]) + wasm.number(flags) + wasm.number(index)
        table += b"" if name is None else wasm.text(name)
    body = wasm.number(len(imports))
    for module, name in imports:
        body += wasm.text(module) + wasm.text(name) + b"\0\0"
    linking = b"\2" + bytes([wasm.SYMBOL_TABLE]) + wasm.number(len(table)) + table
    return b"\0asm\1\0\0\0" + section(2, body) + section(0, linking, "linking")


def test_random_numbers_of_the_host_are_replaced_by_the_artifacts(tmp_path):
    imports = [("env", "f"), ("wasi_snapshot_preview1", "random_get"), ("other", "random_get")]
    undefined = wasm.UNDEFINED
    symbols = [(undefined, 0, None), (undefined | wasm.EXPLICIT_NAME, 2, "_other")]
    (tmp_path / "random.o").write_bytes(
        object_file([], [(0, 0, "belljar_random_get"), (0, 1, "g")])
    )
    (tmp_path / "x.so").write_bytes(object_file(imports, symbols))
    given = [tmp_path / "x.so", tmp_path / "random.o", tmp_path]
    assert compiler.random_sources(*given) == []
    # Each crate has its own name for the import.
    symbols += [(undefined | wasm.EXPLICIT_NAME, 1, name) for name in ("_random_2", "_random_1")]
    (tmp_path / "x.so").write_bytes(object_file(imports, symbols))
    sources = compiler.random_sources(*given)
    defined = [[name for *_, name, _ in wasm.symbols(s.read_bytes())[0]] for s in sources]
    assert defined == [["_random_1", "g"], ["_random_2", "g"]]


def test_a_requirement_is_a_name_with_or_without_a_version():
    assert wanted("orjson==3.13.0") == ("orjson", "3.13.0")
    assert wanted("orjson") == ("orjson", None)
    for text in ("orjson==", "orjson>=3", "--x==1", "a b==1", "../a==1"):
        with pytest.raises(toolchain.UsageError):
            wanted(text)


def test_a_recipe_names_no_file_outside_of_its_sources(tmp_path):
    assert recipe.inside(tmp_path, "a/b") == tmp_path / "a/b"
    for name in ("../a", "/etc/passwd", "a/../../b"):
        with pytest.raises(toolchain.BuildError):
            recipe.inside(tmp_path, name)


def test_an_unknown_key_of_a_recipe_is_refused():
    with pytest.raises(toolchain.BuildError, match="unknown key flag"):
        plan(flag=1)


def test_a_source_with_another_hash_is_refused(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"x")
    with pytest.raises(toolchain.BuildError, match="SHA-256"):
        recipe.download("https://example.org/a.tar", "0" * 64, tmp_path / "work", tmp_path)


def test_all_recipes_are_readable():
    for path in (toolchain.HERE / "recipes").glob("*.toml"):
        version = tomllib.loads(path.read_text())["version"]
        assert recipe.read(path.stem, version, None).folder == path.parent


def test_a_recipe_that_is_given_must_exist(tmp_path):
    assert recipe.read("x", "1", None).replace == []
    with pytest.raises(toolchain.BuildError, match="no recipe"):
        recipe.read("x", "1", tmp_path / "x.toml")


def test_files_beside_a_recipe_are_copied_into_the_source(tmp_path, monkeypatch):
    archive = tmp_path / "x-1.tar"
    (tmp_path / "x-1").mkdir()
    with tarfile.open(archive, "w") as made:
        made.add(tmp_path / "x-1", "x-1")
    (tmp_path / "own.py").write_text("here = True")
    monkeypatch.setattr(recipe, "fetch", lambda *_: archive)
    made = recipe.Plan("x", "1", {"own": {"mine.py": "own.py"}}, tmp_path)
    made.path = tmp_path / "x.toml"
    assert made.files() == [made.path, tmp_path / "own.py"]
    assert (made.unpack(tmp_path / "work", None, None) / "mine.py").read_text() == "here = True"
    made.own = {"new/folder/mine.py": "own.py"}
    assert (made.unpack(tmp_path / "new", None, None) / "new/folder/mine.py").is_file()
    for own in ({"../mine.py": "own.py"}, {"mine.py": "../own.py"}):
        made.own = own
        with pytest.raises(toolchain.BuildError, match="outside"):
            made.unpack(tmp_path / next(iter(own)).replace(".", "-"), None, None)


def test_a_recipe_with_modules_has_one_version():
    with pytest.raises(toolchain.BuildError, match="builds version 2, not 1"):
        plan(version="2", module=[{"name": "x", "sources": []}])


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ([{"url": "https://example.org/a", "folder": "a"}], "needs url and sha256"),
        ([{"name": "a", "version": "1"}], "no folder"),
        ([{"name": "a", "version": "1", "folder": "static"}], "the folder static"),
    ],
)
def test_an_invalid_source_is_refused(tmp_path, source, problem):
    with pytest.raises(toolchain.BuildError, match=problem):
        plan(source=source).unpack(tmp_path, None, None)


def test_a_crate_is_downloaded_by_cargo_unless_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))
    monkeypatch.setattr(recipe.shutil, "which", lambda _: "cargo")
    kept = tmp_path / "cargo/registry/cache/registry-1"
    asked = []

    def cargo(command, cwd):
        asked.append(tomllib.loads((cwd / "Cargo.toml").read_text())["dependencies"])
        kept.mkdir(parents=True)
        (kept / "geos-src-1.2.crate").write_bytes(b"x")

    monkeypatch.setattr(recipe, "output_of", cargo)
    digest = hashlib.sha256(b"x").hexdigest()
    for number in (1, 2):
        made = recipe.crate("geos-src", "1.2", digest, tmp_path / f"work-{number}", None)
        assert made.read_bytes() == b"x"
        assert asked == [{"geos-src": "=1.2"}]
    with pytest.raises(toolchain.BuildError, match="SHA-256"):
        recipe.crate("geos-src", "1.2", "0" * 64, tmp_path / "work-3", None)


def test_a_crate_may_be_in_the_folder_of_sources(tmp_path, monkeypatch):
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))
    monkeypatch.setattr(recipe.shutil, "which", lambda _: None)
    digest = hashlib.sha256(b"x").hexdigest()
    with pytest.raises(toolchain.BuildError, match="cargo downloads the crate a"):
        recipe.crate("a", "1", digest, tmp_path / "work", tmp_path)
    (tmp_path / "a-1.crate").write_bytes(b"x")
    assert recipe.crate("a", "1", digest, tmp_path / "work", tmp_path).read_bytes() == b"x"


def test_a_source_is_a_crate_with_version_and_hash(tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "crate", lambda *given: pytest.fail(repr(given[:3])))
    source = {"crate": "a", "version": "1", "sha256": "b", "folder": "a"}
    with pytest.raises(pytest.fail.Exception, match="'a', '1', 'b'"):
        plan(source=[source]).unpack(tmp_path, None, None)
    del source["sha256"]
    with pytest.raises(toolchain.BuildError, match="needs url and sha256, or name and version, or"):
        plan(source=[source]).unpack(tmp_path, None, None)


def test_two_sources_with_one_name_are_refused(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"x")
    digest = hashlib.sha256(b"x").hexdigest()
    recipe.download("https://example.org/a.tar", digest, tmp_path / "work", tmp_path)
    with pytest.raises(toolchain.BuildError, match="two sources"):
        recipe.download("https://example.com/a.tar", digest, tmp_path / "work", tmp_path)


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ("3.15.0", True),
        ("3.15.7", True),
        ("3.15.0b2", False),
        ("3.15.0rc1", False),
        ("3.16.0", False),
        ("3.14.1", False),
        ("", False),
    ],
)
def test_headers_are_those_of_a_final_release_of_the_guest(tmp_path, version, fits):
    (tmp_path / "patchlevel.h").write_text(f'#define PY_VERSION              "{version}"\n')
    with nullcontext() if fits else pytest.raises(toolchain.BuildError, match="headers of"):
        toolchain.check_version(tmp_path, 0x030F01F0)


def test_only_names_that_the_engine_finds_are_offered():
    names = {"PyLong_FromLong", "_Py_Dealloc", "PyInit_math", "PyFoo(PyBar*, int)", "malloc"}
    assert toolchain.offered(names | {"exit", "dlopen"}) == {
        "PyLong_FromLong",
        "_Py_Dealloc",
        "malloc",
    }
    data = toolchain.objects_of_engine(["ValueError"])
    assert {"PyExc_ValueError", "PyLong_Type", "errno", "Py_Version"} <= data
    assert "PyExc_KeyError" not in data


def test_meson_compiles_for_the_sandbox(tmp_path):
    chain = nullcontext()
    chain.tools, chain.environment = tmp_path / "chain.json", {"PATH": "/bin"}
    chain.tools.write_text(json.dumps({"zig": "zig", "include": ["/include"], "libraries": []}))
    given = plan(settings={"setup-args": ["-Dx=y"], "z": "1"})
    build_environment(chain, given, tmp_path)
    read = configparser.ConfigParser()
    read.read(tmp_path / "cross.ini")
    assert read["binaries"]["c"] == f"'{tmp_path / 'tools/cc'}'"
    assert read["host_machine"]["cpu_family"] == "'wasm32'"
    cross = f"--cross-file={tmp_path / 'cross.ini'}"
    settings = settings_of(given, "mesonpy", tmp_path)
    assert settings == {"setup-args": [cross, "-Dx=y"], "z": "1"}
    assert settings_of(given, "setuptools.build_meta", tmp_path) == given.settings


def test_commands_of_a_recipe_run_in_a_folder_of_its_sources(tmp_path):
    (tmp_path / "a").mkdir()

    def run(*arguments, folder="a"):
        command = {"folder": folder, "run": [*arguments]}
        run_command(command, dict(os.environ) | {"X": "y"}, tmp_path, tmp_path / "log")

    run("sh", "-c", "echo $X {jobs} {work} > out")
    assert (tmp_path / "a/out").read_text() == f"y {os.cpu_count()} {tmp_path}\n"
    with pytest.raises(toolchain.BuildError, match="error: no"):
        run("sh", "-c", "echo error: no; exit 1")
    with pytest.raises(toolchain.BuildError, match="needs the program no-such-program"):
        run("no-such-program")
    with pytest.raises(toolchain.BuildError, match="outside of its sources"):
        run("true", folder="..")


def test_text_of_further_sources_is_replaced(tmp_path, monkeypatch):
    archives = {}
    for name in ("main", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.c").write_text("old")
        archives[name] = tmp_path / f"{name}.tar"
        with tarfile.open(archives[name], "w") as opened:
            opened.add(tmp_path / name, name)
    monkeypatch.setattr(recipe, "download", lambda *_: archives["other"])
    monkeypatch.setattr(recipe, "fetch", lambda *_: archives["main"])
    source = {"url": "https://other.tar", "sha256": "", "folder": "b"}
    change = {"folder": "b", "file": "x.c", "old": "old", "new": "new"}
    (tmp_path / "work").mkdir()
    made = plan(source=[source], replace=[change])
    main = made.unpack(tmp_path / "work", None, None)
    assert (main / "x.c").read_text() == "old"
    assert (tmp_path / "work/b/x.c").read_text() == "new"


def test_a_build_that_goes_on_without_an_extension_is_refused(tmp_path):
    log = tmp_path / "log"
    log.write_text("fine\n")
    refuse_failures(tmp_path / "failures", log)
    log.write_text('warning: build_ext: building extension "x._y" failed: error: cc\n')
    with pytest.raises(toolchain.BuildError, match=r"x\._y"):
        refuse_failures(tmp_path / "failures", log)
    (tmp_path / "failures").write_text("_y.wasm was not linked:\nwasm-ld: error: z\n")
    with pytest.raises(toolchain.BuildError, match="wasm-ld: error: z"):
        refuse_failures(tmp_path / "failures", log)


def test_the_configuration_has_the_values_of_the_guest():
    text = toolchain.configuration(
        "#define SIZEOF_LONG 8\n/* #undef HAVE_FORK */\n#define HAVE_KQUEUE 1\n",
        {"SIZEOF_LONG": 4, "HAVE_FORK": 0},
    )
    assert "#define SIZEOF_LONG 4" in text
    assert "HAVE_FORK" not in text
    assert "HAVE_KQUEUE" not in text


def test_a_log_shows_its_errors(tmp_path):
    log = tmp_path / "log"
    commands = ["Running `rustc --error-format=json`"] * 10
    lines = [*commands, *map(str, range(100)), "a.c:1: error: no", *map(str, range(50))]
    log.write_text("\n".join(lines))
    assert "a.c:1: error: no" in toolchain.report(log)
    assert len(toolchain.report(log).splitlines()) < 10


def test_a_rust_module_is_where_maturin_would_put_it(tmp_path):
    source = tmp_path / "source"
    (source / "pysrc/x").mkdir(parents=True)
    (source / "pysrc/x/__init__.py").write_text("from .x import *")
    (source / "PKG-INFO").write_text("Name: x\nVersion: 1\n")
    module = tmp_path / "x.wasm"
    module.write_bytes(extension())
    made = rust.assemble(source, {}, {"python-source": "pysrc"}, module, tmp_path, None)
    with zipfile.ZipFile(made) as archive:
        assert "x/x.wasm" in archive.namelist()
        assert "x/__init__.py" in archive.namelist()


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        ('"setuptools", "setuptools-rust>=1.5"', True),
        ('"Setuptools_Rust"', True),
        ('"setuptools"', False),
    ],
)
def test_setuptools_that_runs_cargo_is_known_by_what_it_requires(tmp_path, requires, expected):
    text = f'[build-system]\nrequires = [{requires}]\nbuild-backend = "setuptools.build_meta"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert rust.uses_rust(tmp_path) is expected
    assert not rust.is_rust(tmp_path)


def test_names_of_a_package_are_equal_however_they_are_written():
    assert {recipe.plain_name(n) for n in ("A.b_C", "a-b-c", "a__B.-c")} == {"a-b-c"}
    assert recipe.plain_name("_decimal") == "_decimal"


def test_a_source_that_the_lock_does_not_name_is_not_unpacked(tmp_path, monkeypatch):
    (tmp_path / "a.tar").write_bytes(b"no archive")
    monkeypatch.setattr(recipe, "fetch", lambda *_: tmp_path / "a.tar")
    made = plan()
    made.expected = "0" * 64
    with pytest.raises(toolchain.BuildError, match="the lock file wants 0000"):
        made.unpack(tmp_path / "work", None, None)
    assert not (tmp_path / "work").exists()
    made.expected = made.source
    with pytest.raises(tarfile.ReadError):
        made.unpack(tmp_path / "work", None, None)


def test_the_source_of_modules_is_what_is_compiled(tmp_path, monkeypatch):
    (tmp_path / "a.tar").write_bytes(b"archive")
    (tmp_path / "own.c").write_text("int own;")
    monkeypatch.setattr(recipe, "download", lambda *_: tmp_path / "a.tar")

    def source(comment):
        values = {"version": "1", "module": [{"name": "x", "sources": [], "own": ["own.c"]}]}
        values["source"] = [{"url": "https://a.tar", "sha256": "", "folder": "a"}]
        made = recipe.Plan("x", "1", values, tmp_path)
        made.path, made.expected = tmp_path / "x.toml", "other"
        made.path.write_text(comment)
        with pytest.raises(toolchain.BuildError, match="lock file"):
            made.unpack(tmp_path / "work", None, None)
        return made.source

    first = source("")
    assert source("# a comment") == first
    (tmp_path / "own.c").write_text("int other;")
    second = source("")
    (tmp_path / "a.tar").write_bytes(b"other archive")
    assert len({first, second, source("")}) == 3


def test_the_source_of_a_package_includes_further_files(tmp_path, monkeypatch):
    for name in ("main", "further", "own.c"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(recipe, "fetch", lambda *_: tmp_path / "main")
    monkeypatch.setattr(recipe, "download", lambda *_: tmp_path / "further")

    def source(**values):
        made = recipe.Plan("x", "1", values, tmp_path)
        made.path, made.expected = tmp_path / "x.toml", "other"
        with pytest.raises(toolchain.BuildError, match="lock file"):
            made.unpack(tmp_path / "work", None, None)
        return made.source

    further = {"source": [{"url": "https://a.tar", "sha256": "", "folder": "a"}]}
    own = {"own": {"src/own.c": "own.c"}}
    assert source() == recipe.sha256_of(tmp_path / "main")
    found = {source(), source(**further), source(**own), source(**further, **own)}
    (tmp_path / "further").write_text("another version")
    assert len(found | {source(**further)}) == 5


def test_text_that_is_missing_is_reported_with_the_version_of_the_recipe(tmp_path, monkeypatch):
    (tmp_path / "x").mkdir()
    (tmp_path / "x/x.c").write_text("text")
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(tmp_path / "x", "x")
    monkeypatch.setattr(recipe, "fetch", lambda *_: tmp_path / "x.tar")
    change = {"file": "x.c", "old": "old", "new": "new"}
    for written_for, problem in (
        ("2", "lacks: it is for version 2, and this is 1$"),
        ("1", "lacks$"),
        (None, "lacks$"),
    ):
        made = plan(replace=[change], **({"version": written_for} if written_for else {}))
        with pytest.raises(toolchain.BuildError, match=problem):
            made.unpack(tmp_path / f"work-{written_for}", None, None)


def test_files_of_a_source_are_changed_and_written(tmp_path):
    with tarfile.open(tmp_path / "a-1.tar", "w") as archive:
        archive.add(Path(__file__).parent.parent / "c", "a-1")
    source = {"url": "https://a-1.tar", "folder": "a"}
    source["sha256"] = recipe.sha256_of(tmp_path / "a-1.tar")
    changes = [
        {"folder": "a", "file": "signal.h", "old": "#ifndef", "new": "#if !defined"},
        {"folder": "a", "file": "new/config.h", "new": "int x;"},
    ]
    made = plan(version="1", source=[source], replace=changes, module=[{}])
    made.unpack(tmp_path / "work", None, tmp_path)
    assert "#if !defined" in (tmp_path / "work/a/signal.h").read_text()
    assert (tmp_path / "work/a/new/config.h").read_text() == "int x;"


def test_entries_with_one_name_make_one_static_library(tmp_path):
    for name in ("cc", "ar"):
        toolchain.write_script(tmp_path / name, ["echo", name])
    for name in ("a/x.c", "a/y.c", "b/x.c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    both = [
        {"name": "z", "sources": ["a/*.c"], "without": ["y.c"], "flags": ["-DA"]},
        {"name": "z", "sources": ["b/*.c"], "include": ["b"]},
    ]
    environment = {"BELLJAR_TOOLS_BIN": str(tmp_path), "AR": str(tmp_path / "ar")}
    modules.archive(plan(), environment, tmp_path, tmp_path / "log")
    assert not (tmp_path / "static").exists()
    modules.archive(plan(static=both), environment, tmp_path, tmp_path / "log")
    objects = [tmp_path / f"static-{n}/0-x.o" for n in (0, 1)]
    assert (tmp_path / "log").read_text().splitlines() == [
        f"cc -DA -c {tmp_path}/a/x.c -o {objects[0]}",
        f"cc -I{tmp_path}/b -c {tmp_path}/b/x.c -o {objects[1]}",
        f"ar rcs {tmp_path}/static/libz.a {objects[0]} {objects[1]}",
    ]


def test_a_package_without_a_source_is_told_from_other_failures(tmp_path, monkeypatch):
    def failing(text):
        def output_of(*_, **__):
            raise toolchain.BuildError(text)

        monkeypatch.setattr(recipe, "output_of", output_of)

    failing("ERROR: No matching distribution found for x")
    with pytest.raises(recipe.NoSourceError):
        recipe.fetch("python", "x", None, None, tmp_path / "a")
    failing("ERROR: no network")
    with pytest.raises(toolchain.BuildError) as raised:
        recipe.fetch("python", "x", None, None, tmp_path / "b")
    assert not isinstance(raised.value, recipe.NoSourceError)


def test_a_wheel_is_kept_by_what_it_depends_on(tmp_path):
    tools = nullcontext()
    tools.folder = Path("runtime-1")

    def known(version, **changes):
        plan = recipe.Plan("My.Pack", version, {}, tmp_path)
        plan.source = "5ca1ab1e"
        plan.expected = changes.get("source")
        plan.path = tmp_path / "recipe.toml"
        plan.path.write_text(changes.get("recipe", ""))
        tools.folder = Path(changes.get("runtime", "runtime-1"))
        return kept.Kept(tmp_path / "built", plan, tools)

    for version in ("1.9", "1.10"):
        fresh = known(version)
        assert fresh.find() is None
        with fresh.locked(), fresh.making() as out:
            out.mkdir()
            packed(out / f"my_pack-{version}-any.whl", INFO)
            assert fresh.keep(out / f"my_pack-{version}-any.whl")["source"] == "5ca1ab1e"
    assert Path(known("1.9").find()["path"]).name == "my_pack-1.9-any.whl"
    # Without a version it is the newest.
    newest = known(None)
    found = newest.find()
    assert Path(found["path"]).name == "my_pack-1.10-any.whl"
    assert newest.plan.version == "1.10"
    assert known("1.9", recipe="library = []").find() is None
    assert known("1.9", runtime="runtime-2").find() is None
    assert known("1.9", source="0ddba11").find() is None
    assert known(None, source="5ca1ab1e").find() == found
    with Path(found["path"]).open("ab") as wheel:
        wheel.write(b"x")
    assert known("1.10").find() is None
    assert not [*(tmp_path / "built").rglob("making-*")]
