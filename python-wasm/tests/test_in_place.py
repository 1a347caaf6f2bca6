"""Threads, pools and processes executed in place, on the host's Python."""

import pathlib
import re
import subprocess
import sys

import pytest

NO_OTHER = "no other thread is left that could do anything about it"
PROGRAMS = pathlib.Path(__file__).parents[2] / "tests/programs/threads"


def parts(name):
    """The code, and the standard output that the case expects."""
    text = (PROGRAMS / f"{name}.py").read_text()
    found = re.search(r"^# expect stdout: (.*)$", text, re.MULTILINE)
    return text.partition("# expect ")[0], eval(found.group(1)) if found else ""


@pytest.mark.parametrize("name", ["asyncio_threads", "executor_map", "threads"])
def test_it_is_done_in_place(runs, name):
    code, expected = parts(name)
    done = runs(code)
    assert done.status()["status"] == "ok"
    assert done.stdout == expected


def test_it_is_what_threads_do(runs):
    code, expected = parts("asyncio_threads")
    native = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30)
    assert native.stdout.decode() == expected


@pytest.mark.parametrize("name", ["deadlock_lock", "deadlock_queue", "deadlock_reply"])
def test_what_would_wait_forever_is_an_error(runs, name):
    code, expected = parts(name)
    done = runs(code)
    assert done.status()["type"] == "RuntimeError"
    assert done.status()["message"].endswith(NO_OTHER)
    assert "no threads in this sandbox" in done.status()["hint"]
    assert done.stdout == expected


def test_what_waits_for_the_end_is_done_before_it(runs):
    done = runs(
        "import threading, queue\n"
        "q = queue.Queue()\n"
        "def take(): globals().update(result=q.get())\n"
        "threading.Thread(target=take).start()\n"
        "q.put(7)"
    )
    assert done.value() == 7


def test_it_is_done_after_an_exception_too(runs):
    done = runs(
        "import threading, queue\n"
        "q = queue.Queue()\n"
        "threading.Thread(target=lambda: print(q.get())).start()\n"
        "q.put(7)\n1/0"
    )
    assert (done.status()["type"], done.stdout) == ("ZeroDivisionError", "7\n")


def test_nothing_of_it_is_left_in_the_next_run(runs):
    done = runs.session(
        "import threading, time, queue\nq = queue.Queue()\n"
        "t = threading.Thread(target=q.get, daemon=True)\nt.start()\nbefore = time.sleep",
        "result = [threading.active_count(), t.is_alive(), before.__name__, time.sleep is before]",
    )
    assert done.value(1)[2] == "sleep"
    assert done.value(1)[0] == 1


def test_an_interrupt_ends_the_code_and_not_the_thread(runs):
    done = runs(
        "import threading, os, signal\n"
        "def work():\n    os.kill(os.getpid(), signal.SIGINT)\n    while True: pass\n"
        "threading.Thread(target=work).start()"
    )
    assert done.status()["status"] == "interrupted"


def test_an_interrupt_in_a_pool_is_not_the_future_s(runs):
    done = runs(
        "from concurrent.futures import ThreadPoolExecutor\nimport os, signal\n"
        "def work():\n    os.kill(os.getpid(), signal.SIGINT)\n    while True: pass\n"
        "with ThreadPoolExecutor() as pool:\n    pool.submit(work)"
    )
    assert done.status()["status"] == "interrupted"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("t = threading.Thread(target=print)\nt.start()\nt.start()", "threads can only be started"),
        ("threading.Thread().join()", "cannot join thread before it is started"),
        ("threading.current_thread().join()", "cannot join current thread"),
        ("c = threading.Condition()\nc.wait()", "cannot wait on un-acquired lock"),
        ("threading.Lock().release()", "release unlocked lock"),
    ],
)
def test_misuse_fails_as_usual(runs, code, expected):
    assert expected in runs(f"import threading\n{code}").status()["message"]
