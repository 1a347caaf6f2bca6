"""Patched names: the code sees no calls of the runner, and loses no results."""

import sys
import types

import pytest

NAMES = """
builtins.open builtins.len builtins.print builtins.isinstance builtins.__import__ builtins.sorted
builtins.repr builtins.str builtins.list builtins.getattr builtins.max builtins.compile
os.makedirs os.mkdir os.stat os.lstat os.getcwd os.fspath os.listdir os.unlink os.remove os.write
os.open os.path.join os.path.exists os.path.lexists os.path.isdir os.path.isfile os.path.abspath
os.path.normpath os.path.splitext os.path.basename os.path.dirname os.path.realpath
io.open io.BytesIO io.StringIO io.TextIOWrapper io.FileIO
json.dumps json.loads json.JSONEncoder re.compile re.sub re.match re.search
math.isfinite math.floor math.log10 math.ceil
itertools.islice itertools.chain functools.partial functools.wraps functools.lru_cache
operator.itemgetter copy.copy copy.deepcopy collections.OrderedDict collections.deque
contextlib.ExitStack contextlib.contextmanager contextlib.suppress
warnings.warn warnings.catch_warnings warnings.filterwarnings
time.time time.sleep time.perf_counter datetime.datetime random.random tempfile.mkstemp
shutil.get_terminal_size pathlib.Path pathlib.Path.open pathlib.Path.exists pathlib.Path.suffix
pathlib.PurePath.name base64.b64encode zlib.compressobj zlib.crc32 zlib.compress struct.pack
logging.getLogger logging.Logger.debug logging.Logger.warning weakref.ref weakref.WeakSet
inspect.signature traceback.format_exception traceback.print_exc traceback.TracebackException
traceback.StackSummary linecache.getline linecache.checkcache textwrap.indent textwrap.dedent
numpy.array numpy.asarray numpy.zeros numpy.ndarray numpy.isfinite numpy.require numpy.errstate
numpy.isnat numpy.datetime_as_string numpy.generic
matplotlib.rc_context matplotlib.image.imsave matplotlib.pyplot.savefig matplotlib.pyplot.close
matplotlib.pyplot.gcf matplotlib.pyplot.get_fignums matplotlib.pyplot.figure
matplotlib.figure.Figure.savefig matplotlib.figure.Figure.draw
matplotlib.backends.backend_agg.FigureCanvasAgg.draw
matplotlib.backends.backend_agg.FigureCanvasAgg.print_png
matplotlib.backends.backend_agg.FigureCanvasAgg.print_figure
matplotlib.backends.backend_agg.RendererAgg matplotlib.axes.Axes.draw matplotlib.text.Text.draw
matplotlib.cbook.open_file_cm matplotlib.lines.Line2D.draw
PIL.Image.frombuffer PIL.Image.Image.save PIL.Image.Image.tobytes
PIL.PngImagePlugin.PngInfo
pandas.DataFrame pandas.Series pandas.Index pandas.DataFrame.to_string pandas.DataFrame.head
pandas.DataFrame.iloc pandas.Series.tolist pandas.Series.to_frame pandas.isna pandas.Timestamp
pandas.get_option pandas.io.formats.format.DataFrameFormatter
pandas.io.formats.printing.pprint_thing
""".split()

START = """
import atexit, os, sys, unittest.mock
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

class Told(Exception):
    pass

df = pd.DataFrame({"a": [1.5, None], "b": ["x", "y"]}, index=pd.to_datetime(["2024-01-05"] * 2))
series = df.a
plt.plot([1, 2, 3]); plt.title("shown")
plt.figure().add_subplot().plot([3, 1])
result = {"array": np.arange(3.0), "frame": df, "when": np.datetime64("2024-01-05"), "n": {1: 2}}
"""

END = """
plt.show()
after_show()
raise Told("at the end")
"""

PATCH = """
names = NAMES
calls, write, say = [], os.write, repr

def lookup(name):
    parts = name.split(".")
    for size in range(len(parts) - 1, 0, -1):
        owner = sys.modules.get(".".join(parts[:size]))
        if owner is not None:
            for part in parts[size:-1]:
                owner = getattr(owner, part)
            return owner, parts[-1]

def make(name):
    def mock(*args, **kwargs):
        calls.append(name)
        raise AssertionError("a call of " + name)
    return mock

atexit.register(lambda: write(1, say(calls).encode()))
"""

ALL_AT_ONCE = """
def after_show():
    pass

patches = [(*lookup(name), make(name)) for name in names]
put = setattr
for owner, name, mock in patches:
    put(owner, name, mock)
"""

FOR_A_WHILE = """
for name in ("builtins.isinstance", "builtins.getattr", "contextlib.ExitStack"):
    names.remove(name)  # `patch` calls it itself
patches = [unittest.mock.patch.object(*lookup(name), make(name)) for name in names]
for patch in patches:
    patch.start()

def after_show():
    for patch in patches[::-1]:
        patch.stop()
"""


def outcome(done):
    """The frames, without the questions that imports ask."""
    return [(name, payload) for _, name, payload in done.frames if name != "m"]


@pytest.fixture
def unpatched(runs):
    pytest.importorskip("pandas")
    done = runs(START + "after_show = lambda: None\nfigure = plt.show\n" + END)
    assert [name for name, _ in outcome(done)] == ["p", "p", "s", "d", "d", "v", "x", "e"]
    for path in (runs.workspace / "plots").iterdir():
        path.unlink()
    return done


@pytest.mark.parametrize("how", [ALL_AT_ONCE, FOR_A_WHILE], ids=["all_at_once", "for_a_while"])
def test_more_than_a_hundred_names(runs, unpatched, how):
    assert len(NAMES) > 100
    code = START + PATCH.replace("NAMES", repr(NAMES)) + how + END
    done = runs(code)
    assert done.stdout == "[]"
    assert [name for name, _ in outcome(done)] == [name for name, _ in outcome(unpatched)]
    for op in "pdv":
        assert done.of(op) == unpatched.of(op)
    assert done.of("w") == []
    status, expected = done.status(), unpatched.status()
    assert (status["type"], status["message"]) == ("Told", "at the end")
    assert status["traceback"].splitlines()[-2:] == expected["traceback"].splitlines()[-2:]
    assert done.stderr.startswith(status["traceback"])  # then matplotlib's own exit handler


def test_what_the_code_patched_is_its_own_again_afterwards(runs):
    done = runs(
        START + "import json\n"
        "mine = os.makedirs = pd.DataFrame.to_string = lambda *args: 'mine'\n"
        "inherited = plt.Figure.get_label = lambda *args: 'mine'\n"
        "plt.show()\n"
        "atexit.register(lambda: print(os.makedirs is mine, pd.DataFrame.to_string is mine,\n"
        "                              plt.Figure.get_label is inherited))\n"
        "result = [os.makedirs is mine, pd.DataFrame.to_string is mine,\n"
        "          plt.Figure.get_label is inherited]"
    )
    assert done.value() == [True, True, True]
    assert done.stdout == "True True True\n"


def test_names_that_are_gone(runs):
    done = runs(START + "del os.makedirs, os.path.join, plt.Figure.savefig\nplt.show()\n")
    assert done.status()["status"] == "ok"
    assert len(done.of("p")) == 2


def test_modules_that_are_replaced(runs):
    done = runs(
        START + "for name in ('os', 'io', 'json', 're', 'matplotlib', 'numpy', 'pandas'):\n"
        "    sys.modules[name] = None\n"
        "plt.show(); result = df\n"
        "print(sys.modules['pandas'])"
    )
    assert done.stdout == "None\n"
    assert len(done.of("p")) == 2
    assert [one["name"] for one in done.of("d")] == ["df", "series", "result"]


def test_an_import_finds_the_workspace_by_no_patched_name(runs):
    (runs.workspace / "mine.py").write_text("x = 3")
    done = runs(
        "import os\n"
        "def refuse(*args): raise AssertionError\n"
        "os.path.isdir = os.path.isfile = os.stat = os.listdir = refuse\n"
        "import mine\nresult = mine.x"
    )
    assert done.value() == 3, done.stderr


def stored_by(code):
    from _belljar.source import originals

    state = originals._State()
    state.anything = False
    usual, originals._STATE = originals._STATE, state
    try:
        originals.watch(compile(code, "<string>", "exec"))
    finally:
        originals._STATE = usual
    return None if state.anything else state.stored


def test_what_a_program_may_patch():
    assert (
        stored_by("import numpy as np\nx = np.arange(3)\nprint(x.sum(), [y for y in x])") == set()
    )
    assert stored_by("import os\nos.stat = None") == {"stat"}
    assert stored_by("def f():\n    def g(): os.x = 1; del os.y\n    class C: z = 1") == {"x", "y"}
    many = "".join(f"a.b{n}\n" for n in range(700)) + "a.last = 1"
    assert "last" in stored_by(many)
    for code in (
        "setattr(os, 'stat', None)",
        "vars(os)['stat'] = None",
        "from unittest.mock import patch",
        "os.__dict__.update(x=1)",
        "exec('import os')",
        "import sys; sys.modules['os'] = None",
    ):
        assert stored_by(code) is None, code
    assert stored_by("globals()['x'] = 1") == set()


def test_who_may_have_patched(monkeypatch):
    import email.charset

    from _belljar.source import originals

    of_library = originals._is_of_library
    assert of_library(sys)
    assert of_library(email.charset)
    made = types.ModuleType("made")
    assert not of_library(made)
    assert not of_library(None)
    made.__spec__ = email.charset.__spec__
    assert of_library(made)
    made.__spec__ = types.SimpleNamespace(origin="built-in")
    assert not of_library(made)

    loaded = frozenset(sys.modules)
    monkeypatch.setattr(originals._STATE, "count", 0)
    monkeypatch.setattr(originals._STATE, "loaded", loaded - {"email.charset"})
    assert not originals._has_strangers()
    assert originals._STATE.count == originals._count()
    monkeypatch.setitem(sys.modules, "made", made)
    assert originals._has_strangers()
    monkeypatch.delitem(sys.modules, "made")
    monkeypatch.setattr(originals._STATE, "loaded", loaded | {"gone"})
    monkeypatch.setattr(originals._STATE, "count", 0)
    assert originals._has_strangers()


def test_nothing_is_looked_at_until_it_is_needed(monkeypatch):
    from _belljar.source import originals

    was, mine, looked = object(), object(), []
    space = originals._Namespace(None, held := {"name": was}, {"name": was})
    monkeypatch.setattr(originals, "_all", lambda: looked.append(1) or [space])
    monkeypatch.setattr(originals._STATE, "anything", True)
    held["name"] = mine
    with originals.restored(lazily=True):
        assert held["name"] is mine
        for _ in range(2):
            originals.needed()
            assert held["name"] is was
    assert held["name"] is mine
    with originals.restored():
        assert held["name"] is was
    with originals.restored(lazily=True), originals.restored():
        assert held["name"] is was
    assert held["name"] is mine
    assert len(looked) == 3
    originals.needed()
    assert held["name"] is mine


def test_modules_of_the_workspace_may_patch(runs):
    (runs.workspace / "helper.py").write_text(
        "import os\ncalls = []\nos.mkdir = lambda *args: calls.append(args)\n"
        "import matplotlib.figure as f\nf.Figure.draw = lambda *args: calls.append(args)\n"
    )
    done = runs(START + "import helper\nplt.show()\nresult = len(helper.calls)")
    assert done.value() == 0
    assert len(done.of("p")) == 2


def test_a_single_name_is_enough(runs):
    done = runs(
        START + "import matplotlib.backends.backend_agg as agg, matplotlib.backend_bases as base\n"
        "calls = []\n"
        "def mock(*args, **kwargs): calls.append(args)\n"
        "agg.FigureCanvasAgg.print_figure = mock\n"
        "class Own(plt.Figure):\n"
        "    def savefig(self, *args, **kwargs):\n"
        "        calls.append('own'); super().savefig(*args, **kwargs)\n"
        "Own().show()\nplt.show()\n"
        "base.FigureCanvasBase.print_figure = mock; plt.figure(); plt.show()\n"
        "result = [calls, agg.FigureCanvasAgg.print_figure is mock]"
    )
    assert done.value() == [["own"], True]
    assert len(done.of("p")) == 4
