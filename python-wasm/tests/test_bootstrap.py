"""Loads the runner like the host."""

import ast
import json
import subprocess
import sys

import pytest

import driver
from process import HERE

SOURCES = dict(driver.modules())
TREES = {name: ast.parse(source) for name, source in SOURCES.items()}
# A folder imports from itself and from those before it.
FOLDERS = [
    "protocol",
    "source",
    "values",
    "display",
    "tools",
    "stand_ins",
    "formats",
    "dialect",
    "run",
    "baking",
    "",
]
NOT_IN_IMAGES = "formats."


def imports(tree):
    """The runner's modules that a module imports when executed, and those imported later."""
    at_once, later = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("_belljar"):
            name = node.module.removeprefix("_belljar").removeprefix(".")
            found = {f"{name}.{alias.name}" for alias in node.names} if name in FOLDERS else {name}
            (at_once if node in tree.body else later).update(found)
    return at_once, later


def loaded_by(name):
    found = {name}
    for other in imports(TREES[name])[0]:
        found |= loaded_by(other)
    return found


def load(sources):
    """Load modules with these sources in a new process, and print which were executed."""
    program = (
        "import json, sys, types\n"
        "spec = json.loads(sys.argv[1])\n"
        "names = {'__name__': 'loading'}\n"
        "exec(spec.pop('loading'), names)\n"
        "names['load'](spec)\n"
    )
    spec = json.dumps({"loading": SOURCES["loading"], **sources})
    return subprocess.run(
        [sys.executable, "-c", program, spec], capture_output=True, text=True, check=False, cwd=HERE
    )


def entry(*imports):
    return "\n".join([*imports, "def publish(package):", "    package.run = run", ""])


def test_modules_are_executed_in_the_order_of_their_imports():
    done = load(
        {
            "one.first": "print('first')",
            "one.second": "from _belljar.one import first\nprint('second', first.__name__)",
            "two.third": "from _belljar.one.second import first\nprint('third', first.__file__)",
            "two.unused": "print('unused')",
            "entry": entry(
                "from _belljar.two import third", "from _belljar.one import second", "run = 1"
            ),
        }
    )
    assert done.stdout.splitlines() == [
        "first",
        "second _belljar.one.first",
        "third <belljar>/one/first.py",
    ], done.stderr


def test_a_circle_is_an_error_that_names_it():
    done = load(
        {
            "one.first": "from _belljar.two import second",
            "two.second": "from _belljar.two import third",
            "two.third": "from _belljar.one import first",
            "entry": entry("from _belljar.one import first"),
        }
    )
    circle = "one.first -> two.second -> two.third -> one.first"
    assert f"import in a circle: {circle}\n" in done.stderr


def test_an_import_of_a_module_that_does_not_exist_is_an_error():
    done = load({"entry": entry("from _belljar.one.first import x")})
    assert "the runner has no module 'one.first'" in done.stderr


def test_a_module_that_waits_is_executed_once_and_again_after_a_failure():
    done = load(
        {
            "one.late": "import sys\nsys.tries += 1\nif sys.tries == 1: raise ValueError\n"
            "print('late', len([1]))",
            "entry": entry(
                "import sys, builtins",
                "sys.tries = 0",
                "def use():",
                "    from _belljar.one import late",
                "    return late",
                "class run: pass",
            )
            + "    import atexit\n"
            "    def end():\n"
            "        builtins.len = None\n"
            "        del sys.modules['_belljar']\n"
            "        try: use()\n"
            "        except ValueError: print('failed')\n"
            "        assert use() is use()\n"
            "    atexit.register(end)\n",
        }
    )
    assert done.stdout == "failed\nlate 1\n", done.stderr


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_folders_import_only_from_those_before_them(name):
    own = name.rpartition(".")[0]
    for other in set.union(*imports(TREES[name])):
        assert FOLDERS.index(other.rpartition(".")[0]) <= FOLDERS.index(own), other


def test_images_hold_everything_but_the_formats():
    executed = loaded_by("entry") | {"loading"}
    assert all(name.startswith(NOT_IN_IMAGES) for name in set(SOURCES) - executed)
    assert {name for name in executed if name.startswith(NOT_IN_IMAGES)} == {
        "formats.parquet",
        "formats.feather",
    }


def test_only_the_door_knows_the_host():
    for name, source in SOURCES.items():
        assert ("_host" in source) == (name == "protocol.door")


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
