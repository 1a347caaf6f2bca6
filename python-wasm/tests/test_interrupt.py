"""The soft interrupt: in user code, in the harvest, and in critical sections."""

import pytest


def interrupted(runs, code, **changes):
    """Interrupt the run as soon as it has created the file `go`."""
    order = runs.request(code, **changes)
    return runs.of([order], interrupt_when=runs.workspace / "go")


def test_the_line_that_was_running_is_named(runs):
    done = interrupted(
        runs,
        "x = 1\n"
        "print('partial', end='')\n"
        "def spin():\n"
        "    open('go', 'w').close()\n"
        "    while True:\n"
        "        pass\n"
        "result = 7\n"
        "spin()",
    )
    status = done.status()
    assert (status["status"], status["type"]) == ("interrupted", "KeyboardInterrupt")
    assert status["line"] in (4, 5, 6)
    assert "in spin" in done.stderr
    assert "belljar" not in done.stderr
    assert done.stdout == "partial"
    assert done.value() == 7


def test_except_exception_does_not_stop_it(runs):
    done = interrupted(
        runs,
        "open('go', 'w').close()\n"
        "while True:\n"
        "    try:\n"
        "        while True: pass\n"
        "    except Exception: pass",
    )
    assert done.status()["status"] == "interrupted"


def test_code_may_catch_it_and_end(runs):
    done = interrupted(
        runs,
        "try:\n"
        "    open('go', 'w').close()\n"
        "    while True: pass\n"
        "except KeyboardInterrupt as e:\n"
        "    result = [type(e).__name__, type(e).__module__]",
    )
    assert done.status()["status"] == "ok"
    assert done.value() == ["KeyboardInterrupt", "builtins"]


def test_asleep_and_in_a_coroutine(runs):
    done = interrupted(runs, "import asyncio\nopen('go', 'w').close()\nawait asyncio.sleep(60)\n")
    assert done.status()["status"] == "interrupted"
    assert done.ended()


@pytest.mark.parametrize(
    "code",
    [
        "class R:\n"
        "    def __repr__(self):\n"
        "        open('go', 'w').close()\n"
        "        while True: pass\n"
        "result = R()",
        "class R:\n"
        "    def __repr__(self):\n"
        "        open('go', 'w').close()\n"
        "        while True:\n"
        "            try:\n"
        "                while True: pass\n"
        "            except Exception: pass\n"
        "result = [R(), R()]",
    ],
    ids=["a value", "values"],
)
def test_the_harvest_goes_on_without_what_loops(runs, code):
    done = interrupted(runs, code)
    assert done.status()["status"] == "ok"
    assert done.of("v") == []
    assert done.ended()


CAUGHT = "import traceback\ntry: spin()\nexcept KeyboardInterrupt: traceback.print_exc()"


@pytest.mark.parametrize(
    "code",
    [
        "class A: __del__ = lambda self, spin=spin: spin()\na = A()\ndel a",
        "class A: __del__ = lambda self, spin=spin: spin()\na = A()",
        "import atexit; atexit.register(spin)",
        CAUGHT,
    ],
    ids=["destructor", "destructor at the end", "exit handler", "caught"],
)
def test_what_python_prints_by_itself_shows_only_frames_of_the_code(runs, code):
    spin = "def spin():\n    open('go', 'w').close()\n    while True: pass\n"
    done = interrupted(runs, spin + code)
    assert done.status()["status"] == "ok"
    assert "Traceback (most recent call last):" in done.stderr
    assert "in spin" in done.stderr
    assert "belljar" not in done.stderr
    assert done.ended()


@pytest.mark.parametrize(
    "code",
    [
        "import atexit; atexit.register(spin)",
        "class A: __del__ = lambda self, spin=spin: spin()\na = A()",
    ],
    ids=["exit handler", "destructor"],
)
def test_what_loops_at_the_end_is_ended(runs, code):
    spin = "def spin():\n    open('go', 'w').close()\n    while True: pass\n"
    done = interrupted(runs, f"{spin}{code}\nresult = 1")
    assert done.status()["status"] == "ok"
    assert done.value() == 1
    assert done.ended()


def test_an_exception_that_loops_when_shown_still_has_a_status(runs):
    done = interrupted(
        runs,
        "class E(Exception):\n"
        "    def __str__(self):\n"
        "        open('go', 'w').close()\n"
        "        while True: pass\n"
        "raise E",
    )
    status = done.status()
    assert (status["status"], status["type"], status["line"]) == ("exception", "E", 5)
    assert done.ended()


def test_a_session_goes_on_after_it(runs):
    first = runs.request("x = 1\nopen('go', 'w').close()\nwhile True: pass", session=True)
    second = runs.request("result = x", session=True)
    done = runs.of([first, second], interrupt_when=runs.workspace / "go")
    assert done.status()["status"] == "interrupted"
    assert done.value(1) == 1


def test_a_session_awaits_again_after_it(runs):
    spin = "import asyncio\nx = 1\nopen('go', 'w').close()\nawait asyncio.sleep(60)"
    first = runs.request(spin, session=True)
    second = runs.request("result = await asyncio.sleep(0, x)", session=True)
    done = runs.of([first, second], interrupt_when=runs.workspace / "go")
    assert done.status()["status"] == "interrupted"
    assert done.value(1) == 1


def test_an_interrupt_of_the_codes_own_is_an_exception(runs):
    assert runs("raise KeyboardInterrupt").status()["status"] == "exception"
