"""Loading the runner the way the host does."""

import ast

import pytest

from conftest import RUNNER

MODULES = (RUNNER / "ORDER").read_text().split()


def test_the_order_lists_every_module_once():
    files = {path.stem for path in RUNNER.glob("*.py")} - {"bootstrap"}
    assert sorted(MODULES) == sorted(files)
    assert MODULES[-1] == "entry"


@pytest.mark.parametrize("name", MODULES)
def test_modules_import_only_what_comes_before_them(name):
    tree = ast.parse((RUNNER / f"{name}.py").read_text())
    earlier = set(MODULES[: MODULES.index(name)])
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("_belljar"):
            _, _, module = node.module.partition(".")
            assert {module} if module else {alias.name for alias in node.names} <= earlier


def test_only_the_door_knows_the_host():
    for name in MODULES:
        assert ("_host" in (RUNNER / f"{name}.py").read_text()) == (name == "door")


def test_nothing_is_left_behind(runs):
    done = runs("import sys\nresult = [*sys.modules, *globals()]")
    assert not [name for name in done.value() if "belljar" in name]


def test_seal_returns_the_open_descriptors(runs):
    bake = (
        "import sys\n"
        "files = [open(sys.executable, 'rb') for _ in range(3)]\n"
        "numbers = sys.modules['_belljar'].seal()\n"
        "assert {file.fileno() for file in files} <= set(numbers)"
    )
    assert runs.of([runs.request("print(1)")], bake=bake).stdout == "1\n"


def test_sealing_forgets_the_warm_up(runs):
    bake = (
        "import builtins, linecache, sys, warnings\n"
        "main = sys.modules['__main__'].__dict__\n"
        "main['left'] = 1\n"
        "builtins._ = 5\n"
        "linecache.cache['x'] = (1, None, [], 'x')\n"
        "exec('import warnings; warnings.warn(\"once\")', main)"
    )
    done = runs.of(
        [
            runs.request(
                "import linecache, warnings\n"
                "result = ['left' in globals(), 'x' in linecache.cache]\nwarnings.warn('once')\n_"
            )
        ],
        bake=bake,
    )
    assert done.value() == [False, False]
    assert done.status()["type"] == "NameError"
    assert done.stderr.count("UserWarning: once") == 2
