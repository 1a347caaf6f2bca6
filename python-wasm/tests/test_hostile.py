"""Code that attacks the runner: all frames still arrive, unchanged."""

import sys

import pytest

ATTACKS = {
    "builtins gone": (
        "import builtins\n"
        "for name in ('len', 'isinstance', 'type', 'repr', 'str', 'dict', '__import__'):\n"
        "    setattr(builtins, name, None)"
    ),
    "builtins deleted": "import builtins\nvars(builtins).clear()",
    "modules gone": "import sys\nsys.modules.clear()",
    "main replaced": "import sys, types\nsys.modules['__main__'] = types.ModuleType('x')",
    "main's own names gone": "for name in list(globals()): del globals()[name]",
    "json broken": "import json, json.encoder\njson.dumps = json.encoder.c_make_encoder = None",
    "traceback broken": "import traceback, linecache\ntraceback.TracebackException = None\n"
    "linecache.getline = linecache.checkcache = None",
    "traceback hook": "import sys\nsys.excepthook = lambda *a: 1/0",
    "door replaced": "import _host\n_host.call = lambda data: b''",
    "trace": "import sys\n"
    "def trace(*args):\n"
    "    if 'belljar' in args[0].f_code.co_filename: raise ValueError('traced')\n"
    "    return trace\n"
    "sys.settrace(trace)",
    "recursion limit": "import sys\nsys.setrecursionlimit(sys.getrecursionlimit() // 10)",
    "streams closed": "import sys\nsys.stdin.close(); sys.stdout.close()",
    "streams gone": "import sys\ndel sys.stdout, sys.__stdout__, sys.stderr",
    "descriptors closed": "import os\nfor fd in (0, 1): os.close(fd)",
    "gc walked": "import gc\n"
    "for x in gc.get_objects():\n"
    "    if type(x) is dict and 'belljar' in str(x.get('__file__')): x.clear()",
    "gc callbacks": "import gc\ngc.callbacks.append(lambda *a: 1/0)",
    "exit handlers": "import atexit, sys\natexit.register(sys.exit, 9)",
    "exit in a destructor": "import sys\nclass A:\n    def __del__(self): sys.exit(9)\na = A()",
    "signal taken": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    "runner shadowed": "import sys, types\n"
    "fake = sys.modules['_belljar'] = types.ModuleType('_belljar')\nfake.run = lambda: 1/0",
    "meta path gone": "import sys\nsys.meta_path.clear(); sys.path_hooks.clear()",
    "displayhook": "import sys\nsys.displayhook = None\ndel sys.__displayhook__",
    "another modules": "import sys\nsys.modules = None",
    "modules that lie": "import sys, types\n"
    "class Lie(types.ModuleType):\n"
    "    def __getattribute__(self, name): raise ValueError(name)\n"
    "for name in ('pandas', 'matplotlib._pylab_helpers', 'random', 'tempfile'):\n"
    "    sys.modules[name] = Lie(name)",
    "task left": "import asyncio\nasync def f(): pass\nf()",
    "generator left": "def g():\n"
    "    try: yield 1\n"
    "    finally: raise SystemExit(4)\n"
    "it = g(); next(it)",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_the_run_ends_as_it_would_have(runs, attack):
    done = runs(attack + "\nresult = {'a': [1]}")
    assert done.status()["status"] == "ok", done.stderr
    assert done.value() == {"a": [1]}
    assert done.ended()


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_exception_is_reported_as_it_would_have_been(runs, attack):
    done = runs(f"{attack}\n1 / zero")
    status = done.status()
    assert (status["status"], status["type"]) == ("exception", "NameError")
    assert status["line"] == attack.count("\n") + 2
    assert "1 / zero" in status["traceback"]
    assert "belljar" not in status["traceback"].replace("'belljar'", "")
    assert "1 / zero" in done.stderr
    assert done.ended()


@pytest.mark.parametrize(
    "attack",
    [ATTACKS[name] for name in ATTACKS if not name.startswith(("builtins", "modules gone"))],
)
def test_the_next_run_of_the_session_works(runs, attack):
    done = runs.session(attack, "result = 5")
    assert done.of("s", 1)[0]["status"] == "ok", done.stderr
    assert done.value(1) == 5
    assert done.ended(1)


@pytest.mark.parametrize("name", ["builtins gone", "builtins deleted", "modules gone"])
def test_even_a_ruined_session_gives_its_frames(runs, name):
    done = runs.session(ATTACKS[name], "x = 5\nresult = x")
    assert done.of("s", 1)[0]["status"] == "ok", done.stderr
    assert done.value(1) == 5
    assert done.ended(1)


@pytest.mark.parametrize(
    "attack",
    [
        "import sys\nsys.setprofile(lambda f, e, a: 1/0 if 'belljar' in str(f) else None)",
        "import sys\n"
        "def trace(*args): raise ValueError('traced')\n"
        "frame = sys._getframe(1)\nframe.f_trace = trace\nsys.settrace(lambda *a: None)",
    ],
    ids=["profile", "frame trace"],
)
def test_a_hook_that_raises_in_the_runner_is_the_codes_exception_at_most(runs, attack):
    done = runs(f"{attack}\nresult = 1")
    assert done.status()["status"] in ("ok", "exception")
    assert done.value() == 1
    assert done.ended()


HOSTILE_ERRORS = {
    "str raises": "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
    "str exits": "class E(Exception):\n    def __str__(self): raise SystemExit(5)\nraise E",
    "str is no str": "class E(Exception):\n    def __str__(self): return 5\nraise E",
    "str lies": "class S(str):\n"
    "    def __len__(self): return 1 << 60\n"
    "    def __getitem__(self, i): raise ValueError\n"
    "class E(Exception):\n    def __str__(self): return S('x')\nraise E",
    "class lies": "class E(Exception):\n    __class__ = property(lambda s: 1/0)\nraise E",
    "metaclass lies": "class M(type):\n"
    "    __name__ = __module__ = property(lambda c: 1/0)\n"
    "    def __instancecheck__(c, o): return 1/0\n"
    "    def __hash__(c): return 1/0\n"
    "    def __eq__(c, o): return 1/0\n"
    "class E(Exception, metaclass=M): pass\nraise E",
    "attributes lie": "class E(Exception):\n"
    "    def __getattribute__(self, name): raise ValueError\nraise E",
    "traceback lies": "class E(Exception):\n"
    "    __traceback__ = __cause__ = __context__ = __notes__ = property(lambda s: 1/0)\nraise E",
    "notes lie": "e = ValueError()\ne.__notes__ = [object(), 5]\nE = type('E', (ValueError,), {})\n"
    "e = E(); e.__notes__ = 5\nraise e",
    "cycle of causes": "class E(Exception): pass\na, b = E('a'), E('b')\n"
    "a.__cause__ = b; b.__cause__ = a\nraise a",
}


@pytest.mark.parametrize("code", HOSTILE_ERRORS.values(), ids=HOSTILE_ERRORS)
def test_a_hostile_exception_is_one(runs, code):
    done = runs(code)
    status = done.status()
    assert (status["status"], status["type"]) == ("exception", "E")
    assert status["line"] == code.count("\n") + 1
    assert "raise " in done.stderr
    assert done.ended()


def test_a_huge_message_is_cut(runs):
    done = runs("raise ValueError('x' * 10**7)")
    status = done.status()
    assert len(status["message"]) == 8 * 1024
    assert len(status["traceback"]) < 70_000
    assert "characters left out" in status["traceback"]


def test_a_name_that_is_no_string_harms_nothing(runs):
    done = runs("globals()[5] = 6; globals()[None] = None\nresult = 1")
    assert done.value() == 1


def test_forged_frames_do_not_stop_ours(runs):
    done = runs("import _host\n_host.call(b's{}')\nresult = 1")
    assert [status.get("status") for status in done.of("s")] == [None, "ok"]
    assert done.ended()


def test_the_runner_is_out_of_sight(runs):
    assert runs("import _belljar").status()["type"] == "ModuleNotFoundError"


def test_an_audit_hook_that_refuses_everything(runs):
    done = runs(
        "import sys\nresult = [1]\narmed = False\n"
        "def refuse(*args):\n"
        "    if armed: raise SystemExit(7)\n"
        "sys.addaudithook(refuse)\narmed = True"
    )
    assert done.status()["status"] == "ok"
    assert done.value() == [1]
    assert done.ended()


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="no such thing in this Python")
@pytest.mark.parametrize("event", ["PY_START", "CALL", "PY_RETURN", "C_RETURN", "RAISE"])
def test_monitoring_callbacks_that_raise(runs, event):
    done = runs(
        "import sys\nresult = [1]\n"
        "tools = sys.monitoring\n"
        "for tool in range(6):\n"
        "    tools.use_tool_id(tool, 'mine')\n"
        f"    tools.register_callback(tool, tools.events.{event}, lambda *_: 1 / 0)\n"
        f"    tools.set_events(tool, tools.events.{event})"
    )
    assert done.value() == [1]
    assert done.ended()
