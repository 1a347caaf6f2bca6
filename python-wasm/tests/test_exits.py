"""The ways in which code can end, and the resulting status."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("code", "kind", "exit_code", "message"),
    [
        ("import sys; sys.exit()", "ok", 0, None),
        ("import sys; sys.exit(0)", "ok", 0, None),
        ("import sys; sys.exit(False)", "ok", 0, None),
        ("exit()", "ok", 0, None),
        ("quit(0)", "ok", 0, None),
        ("import sys; sys.exit(3)", "exit", 3, "3"),
        ("exit(True)", "exit", 1, "1"),
        ("import sys; sys.exit(2**40)", "exit", -1, "-1"),
        ("import sys; sys.exit('bye')", "exit", 1, "bye"),
        ("raise SystemExit(1, 2)", "exit", 1, "(1, 2)"),
        ("import asyncio; await asyncio.sleep(0); exit(4)", "exit", 4, "4"),
    ],
)
def test_exits(runs, code, kind, exit_code, message):
    done = runs(f"print('before')\nresult = 1\n{code}")
    status = done.status()
    assert (status["status"], status["exit_code"]) == (kind, exit_code)
    assert status["message"] == message
    assert done.stdout == "before\n"
    assert done.value() == 1
    assert ("bye" in done.stderr) == (message == "bye")


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Parser stack overflowed - Python source too complex to parse", "exception"),
        ("", "memory"),
    ],
)
def test_source_that_is_nested_too_deeply_did_not_run_out_of_memory(runs, message, kind):
    status = runs(f"raise MemoryError({message!r})").status()
    assert (status["status"], status["type"]) == (kind, "MemoryError")


def test_an_exit_whose_message_raises(runs):
    done = runs("class A:\n    def __str__(self): 1/0\nraise SystemExit(A())")
    assert done.status()["message"] == "<exit message str() failed>"


def test_a_lying_exit_code(runs):
    code = "class E(SystemExit):\n    code = property(lambda self: 1/0)\nraise E(4)"
    assert runs(code).status()["exit_code"] == 4


def test_memory(runs):
    done = runs("x = bytearray(1 << 62)")
    status = done.status()
    assert (status["status"], status["type"], status["line"]) == ("memory", "MemoryError", 1)
    assert status["hint"]
    assert runs("try:\n    bytearray(1 << 62)\nexcept MemoryError: pass").status()["status"] == "ok"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("1 +", 1),
        ("x = 1\nif x\n  pass", 2),
        ("x = 1\n  y = 2", 2),
        ("print('a'\n", 1),
        ("return 5", 1),
        ("x = '\n", 1),
    ],
)
def test_syntax_errors(runs, code, line):
    done = runs("ok = 1\n" + code)
    status = done.status()
    assert status["status"] == "syntax"
    assert status["line"] == line + 1
    assert done.stderr.startswith('  File "<string>", line ')
    assert "Traceback" not in done.stderr
    assert done.stderr == status["traceback"]


@pytest.mark.parametrize("code", ["x = 1\0", "x = '\ud800'", "(" * 500 + ")" * 500])
def test_text_that_is_no_code(runs, code):
    done = runs(code)
    assert done.status()["status"] in ("syntax", "memory", "ok", "exception")
    assert "belljar" not in done.stderr
    assert done.ended()


def test_a_syntax_error_at_run_time_is_an_exception(runs):
    status = runs("x = 1\nexec('1 +')").status()
    assert (status["status"], status["type"], status["line"]) == ("exception", "SyntaxError", 2)


def test_the_line_is_the_innermost_of_the_codes_own(runs):
    done = runs(
        "import json\n"
        "def load(text):\n"
        "    return json.loads(text)\n"
        "def outer():\n"
        "    return load('{')\n"
        "outer()"
    )
    assert done.status()["line"] == 3
    assert done.status()["type"] == "JSONDecodeError"


def test_code_in_strings_does_not_count_as_the_codes_lines(runs):
    done = runs("x = 1\n\nexec('\\n\\n\\n\\n1/0')")
    assert done.status()["line"] == 3


def test_the_traceback_is_the_interpreters_own(runs, tmp_path):
    code = (
        "def inner(x):\n"
        "    return {'a': x}['b']\n"
        "\n"
        "def outer():\n"
        "    try:\n"
        "        inner(1)\n"
        "    except KeyError as error:\n"
        "        error.add_note('a note')\n"
        "        raise ValueError('wrong') from error\n"
        "try:\n"
        "    outer()\n"
        "except ValueError:\n"
        "    raise ExceptionGroup('two', [TypeError('a'), OSError(2, 'b')])\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    plain = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    done = runs(code)
    assert done.stderr == plain.stderr.replace(str(script), "<string>")
    assert done.status()["traceback"] == done.stderr


def test_advice_that_does_not_apply_is_left_out(runs):
    advice = (
        ". Site initialization is disabled, did you forget to add the site-packages directory to "
        "sys.path or to enable your virtual environment?"
    )
    done = runs(
        f"advice = {advice!r}\n"
        "try:\n"
        "    raise ModuleNotFoundError('No module named a' + advice)\n"
        "except ImportError as error:\n"
        "    raise ExceptionGroup('two', [error, ValueError(advice + '!')])"
    )
    assert done.stderr.count("ModuleNotFoundError: No module named a\n") == 2
    assert f"ValueError: {advice}!\n" in done.stderr
    assert done.status()["traceback"] == done.stderr


def test_endless_recursion_is_folded(runs):
    done = runs("def f(n):\n    return f(n + 1)\nf(0)")
    assert "Previous line repeated" in done.stderr
    assert len(done.stderr) < 2_000
    assert done.status()["type"] == "RecursionError"
    assert done.status()["line"] == 2


@pytest.mark.skipif(sys.version_info < (3, 13), reason="frames do not carry their code object")
def test_functions_of_earlier_runs_show_their_own_lines(runs):
    done = runs.session("\n\ndef f():\n    return 1 / 0 # first", "f()")
    assert "return 1 / 0 # first" in done.of("s", 1)[0]["traceback"]
    assert done.of("s", 1)[0]["line"] == 4
