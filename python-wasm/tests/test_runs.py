"""Whole runs: the frames that a host receives for ordinary code, in order."""

import pytest


def test_a_run_prints_and_ends(runs):
    done = runs("print(1)")
    assert done.stdout == "1\n"
    assert [name for _, name, _ in done.frames] == ["s", "x", "e"]
    assert done.status()["status"] == "ok"


def test_main_is_what_a_script_sees(runs):
    done = runs("import sys; print(__name__, sorted(globals()), sys.argv, __doc__)")
    assert done.stdout.split(" [")[0] == "__main__"
    names = (
        "['__builtins__', '__doc__', '__loader__', '__name__', '__package__', '__spec__', 'sys']"
    )
    assert names in done.stdout
    assert "['<string>'] None" in done.stdout


def test_no_flag_of_ours_leaks(runs):
    done = runs("def f(x: undefined_name): pass\nf.__annotations__")
    assert done.status()["type"] == "NameError"


def test_environment_arguments_and_directory(runs):
    done = runs(
        "import os, sys\nresult = [os.environ['A'], sys.argv, os.getcwd()]",
        env={"A": "b"},
        argv=["x", "y"],
    )
    assert done.value() == ["b", ["x", "y"], str(runs.workspace)]


def test_the_code_imports_modules_it_wrote(runs):
    done = runs(
        "for n in range(3):\n"
        "    open(f'mod{n}.py', 'w').write(f'x = {n}')\n"
        "    print(__import__(f'mod{n}').x)"
    )
    assert done.stdout == "0\n1\n2\n"


def test_packages_come_after_the_standard_library(runs, tmp_path):
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "extra.py").write_text("x = 7")
    (tmp_path / "packages" / "json.py").write_text("raise RuntimeError('shadow')")
    done = runs("import extra, json; result = extra.x", packages=[str(tmp_path / "packages")])
    assert done.value() == 7


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("result = 5", 5),
        ("result = {'a': (1, 2)}", {"a": [1, 2]}),
        ("result = False", False),
    ],
)
def test_result_is_the_variable_result(runs, code, value):
    assert runs(code).value() == value


def test_no_result_sends_no_value(runs):
    assert runs("x = 1").of("v") == []
    assert runs("result = None").of("v") == []
    assert runs("result = 1", result_var="other").of("v") == []


def test_result_var(runs):
    assert runs("x = 1; result = 2", result_var="x").value() == 1


def test_the_result_survives_an_exception(runs):
    done = runs("result = 1\n1/0")
    assert done.value() == 1
    assert done.status()["line"] == 2


@pytest.mark.parametrize(
    ("echo", "printed"),
    [("none", ""), ("all", "1\na\n3\n"), ("last", "")],
)
def test_echo(runs, echo, printed):
    code = "1\n'a'\nNone\nfor i in [9]: i\nif True: 8\nx = 2\n3;"
    assert runs(code, echo=echo).stdout == printed


def test_echo_last_prints_the_repr_of_the_last_expression(runs):
    assert runs("1\n'a'", echo="last").stdout == "'a'\n"
    assert runs("'a'\nx = 1", echo="last").stdout == ""
    assert runs("", echo="last").stdout == ""


def test_echo_keeps_line_numbers_and_future_imports(runs):
    done = runs("from __future__ import annotations\n'é'; 1/0\n", echo="all")
    assert done.stdout == "é\n"
    assert done.status()["line"] == 2
    assert "1/0" in done.stderr


def test_an_echoed_value_that_cannot_be_printed_is_the_codes_exception(runs):
    done = runs("class A:\n    def __str__(self): raise ValueError('x')\nA()", echo="all")
    assert done.status()["type"] == "ValueError"
    assert "belljar" not in done.stderr


def test_indented_code_is_dedented(runs):
    done = runs("\n    x = 1\n    if x:\n        print('''a\n    b''')\n")
    assert done.stdout == "a\nb\n"


def test_top_level_await(runs):
    code = "import asyncio\nprint(await asyncio.sleep(0, 'a'))\nprint([x async for x in g()])"
    done = runs("async def g():\n    yield 1\n" + code)
    assert done.stdout == "a\n[1]\n"


def test_asyncio_run(runs):
    done = runs("import asyncio\nasync def f(): return 3\nresult = asyncio.run(f())")
    assert done.value() == 3


def test_a_loop_in_which_nothing_can_happen_says_so(runs):
    done = runs("import asyncio\nasync def f(): await asyncio.Event().wait()\nasyncio.run(f())")
    assert "wait forever" in done.status()["message"]


def test_standard_input(runs):
    code = "import sys\nprint(input(), repr(sys.stdin.read()))"
    done = runs.of([runs.request(code)], stdin=b"a\nb\xff")
    assert done.stdout == "a 'b\ufffd'\n"
    assert runs("input()").status()["type"] == "EOFError"


def test_classes_of_main_work_everywhere(runs):
    done = runs(
        "import dataclasses, pickle, typing, inspect, enum\n"
        "@dataclasses.dataclass\n"
        "class A:\n"
        "    x: 'int' = 1\n"
        "def f(): return 5\n"
        "assert pickle.loads(pickle.dumps(A(2))) == A(2)\n"
        "assert typing.get_type_hints(A) == {'x': int}\n"
        "result = inspect.getsource(f)"
    )
    assert done.value() == "def f(): return 5\n"


def test_what_a_process_does_at_its_end(runs):
    done = runs(
        "import atexit, gzip\n"
        "atexit.register(print, 'bye')\n"
        "class A:\n"
        "    def __del__(self): print('gone')\n"
        "a = A()\n"
        "f = open('a.txt', 'w'); f.write('text')\n"
        "class Cycle: pass\n"
        "c = Cycle(); c.me = c; c.f = open('b.txt', 'w'); c.f.write('cycle')\n"
        "z = gzip.open('c.gz', 'wt'); c.z = z; z.write('packed')\n"
    )
    assert done.stdout == "bye\ngone\n"
    assert (runs.workspace / "a.txt").read_text() == "text"
    assert (runs.workspace / "b.txt").read_text() == "cycle"
    import gzip

    assert gzip.decompress((runs.workspace / "c.gz").read_bytes()) == b"packed"


def test_output_has_left_the_process_at_every_moment(runs):
    done = runs(
        "import os\nprint('a', end='')\nprint('b', end='', file=os.sys.stderr)\nos._exit(3)"
    )
    assert (done.stdout, done.stderr) == ("a", "b")


def test_lone_surrogates_can_be_printed(runs):
    done = runs("print('\\ud800')\nimport sys; print('\\udcff', file=sys.stderr)\nresult='\\ud800'")
    assert done.stdout == "\\ud800\n"
    assert done.stderr == "\\udcff\n"
    assert done.value() == "\\ud800"


def test_compile_warnings_go_to_stderr(runs):
    done = runs("x = 1 is 1")
    assert 'SyntaxWarning: "is" with' in done.stderr
    assert done.status()["status"] == "ok"


def test_a_byte_order_mark_is_not_code(runs):
    assert runs("\ufeffprint(1)").stdout == "1\n"


def test_another_version_is_refused(runs):
    done = runs("print(1)", version=2)
    assert "version 2" in done.stderr
    assert done.frames == []


HOOK = "import sys\ndef hook(kind, error, trace):\n    {}\nsys.excepthook = hook\n"


def test_the_codes_own_hook_tells_of_an_uncaught_exception(runs):
    tell = "print(kind.__name__, error, trace.tb_lineno, sys.last_value is error, file=sys.stderr)"
    done = runs(HOOK.format(tell) + "def f(): raise KeyError('x')\nf()")
    assert done.stderr == "KeyError 'x' 6 True\n"
    status = done.status()
    assert (status["type"], status["message"], status["line"]) == ("KeyError", "'x'", 5)
    assert status["traceback"].endswith("KeyError: 'x'\n")
    assert done.ended()


def test_a_hook_sees_no_frame_of_ours(runs):
    code = HOOK.format("import traceback; traceback.print_exception(error)") + "1/0"
    done = runs(code)
    assert done.stderr == done.status()["traceback"]


@pytest.mark.parametrize("code", ["sys.exit(3)", "print('ran')"])
def test_a_hook_is_not_called_without_an_exception(runs, code):
    done = runs(HOOK.format("print('hook')") + code)
    assert "hook" not in done.stdout


def test_a_hook_that_raises(runs):
    done = runs(HOOK.format("None.x") + "raise ValueError('first')")
    head, _, tail = done.stderr.partition("\nOriginal exception was:\n")
    assert head.startswith("Error in sys.excepthook:\nTraceback (most recent call last):\n")
    assert "<belljar>" not in head
    assert tail == done.status()["traceback"]
    assert done.status()["type"] == "ValueError"


@pytest.mark.parametrize("end", ["sys.exit(4)", "raise SystemExit"])
def test_a_hook_that_exits_hides_nothing(runs, end):
    done = runs(HOOK.format(end) + "import atexit\natexit.register(print, 'end')\n1/0")
    assert done.status()["type"] == "ZeroDivisionError"
    assert (done.stdout, done.stderr) == ("end\n", "")
    assert done.ended()


def test_a_hook_that_never_ends(runs):
    ready = runs.workspace / "ready"
    hook = HOOK.format("open('ready', 'w')\n    while True: pass")
    done = runs.of([runs.request(hook + "1/0")], interrupt_when=ready)
    assert done.status()["type"] == "ZeroDivisionError"
    assert done.ended()


@pytest.mark.parametrize(
    ("hook", "begins"),
    [
        ("sys.excepthook = None", "Error in sys.excepthook"),
        ("del sys.excepthook", "sys.excepthook"),
    ],
)
def test_no_hook(runs, hook, begins):
    done = runs(f"import sys\n{hook}\n1/0")
    assert done.stderr.startswith(begins)
    assert done.stderr.endswith(done.status()["traceback"])


def test_a_hook_of_a_session_is_told_of_later_runs(runs):
    done = runs.session(
        HOOK.format("print('told', error)"), "1/0", "sys.excepthook = sys.__excepthook__\n1/0"
    )
    assert done.stdout == "told division by zero\n"
    assert done.stderr == done.status(2)["traceback"]
