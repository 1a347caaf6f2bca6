"""Consecutive runs in one interpreter."""

import pytest


def test_state_stays(runs):
    done = runs.session("x = 1\ndef f(): return x\n1/0", "x += 1; result = f()")
    assert done.value(1) == 2


def test_a_result_counts_only_for_the_run_that_set_it(runs):
    done = runs.session(
        "result = 1", "x = 2", "result = 1", "def f(): global result; result = 3\nf()"
    )
    assert [done.of("v", run) for run in range(4)] == [
        [{"value": 1, "truncated": False}],
        [],
        [{"value": 1, "truncated": False}],
        [{"value": 3, "truncated": False}],
    ]


def test_a_named_result_always_counts(runs):
    done = runs.session("x = 1", "y = 2", result_var="x")
    assert done.value(1) == 1


def test_what_one_run_does_to_its_arguments_the_next_does_not_see(runs):
    tool = {"name": "f", "description": "", "schema": {"properties": {"x": {"default": [1]}}}}
    look = "import inspect, sys, tools; x = inspect.signature(tools.f).parameters['x'].default\n"
    done = runs.session(
        f"{look}x.append(2); sys.argv.append('more')", f"{look}result = [x, sys.argv]", tools=[tool]
    )
    assert done.value(1) == [[1], ["<string>"]]
    done = runs.session("import sys; sys.argv.append('more')", "result = sys.argv")
    assert done.value(1) == ["<string>"]


def test_exit_ends_the_run_and_not_the_session(runs):
    done = runs.session("x = 1\nexit(3)", "result = x")
    assert done.status()["exit_code"] == 3
    assert done.value(1) == 1


@pytest.mark.parametrize(
    "damage",
    [
        "import sys; sys.stdout.close(); sys.stderr.close(); sys.stdin.close()",
        "import sys, io; sys.stdout = sys.stderr = io.StringIO()",
        "import sys; sys.stdout = sys.__stdout__ = None",
        "import sys; sys.stdout.buffer.close()",
        "import sys, io; sys.stdout = io.TextIOWrapper(sys.stdout.buffer); del sys.__stdout__",
    ],
)
def test_streams_are_whole_again(runs, damage):
    done = runs.session(damage, "import sys; print('out'); print('err', file=sys.stderr)")
    assert done.stdout == "out\n"
    assert done.stderr == "err\n"


def test_a_replaced_stream_is_flushed(runs):
    done = runs.session(
        "import sys, io; sys.stdout = io.TextIOWrapper(sys.stdout.buffer); print('kept')"
    )
    assert done.stdout == "kept\n"


def test_exit_handlers_wait(runs):
    done = runs.session("import atexit; atexit.register(print, 'bye')", "print('next')")
    assert done.stdout == "next\n"


def test_one_event_loop_for_all(runs):
    done = runs.session(
        "import asyncio\nq = asyncio.Queue()\nasync def put():\n    await q.put(5)\n"
        "t = asyncio.create_task(put())",
        "await asyncio.sleep(0)\nresult = await q.get()",
        "asyncio.run(asyncio.sleep(0))",
        "result = await asyncio.sleep(0, 7)",
    )
    assert done.status(0)["status"] == "exception"
    assert done.value(3) == 7


def test_tasks_go_on_in_the_next_await(runs):
    done = runs.session(
        "import asyncio\nq = asyncio.Queue()\nasync def put():\n    await q.put(5)\n"
        "t = asyncio.create_task(put())\nawait asyncio.sleep(0)",
        "result = await q.get()",
    )
    assert done.value(1) == 5


def test_the_import_path_and_directory_are_the_codes(runs):
    done = runs.session(
        "import os, sys\nsys.path.append('/mine'); os.environ['A'] = 'b'",
        "result = [sys.path.count('/mine'), sys.path.count(os.getcwd()), os.environ['A']]",
    )
    assert done.value(1) == [1, 1, "b"]


def test_echo_of_one_run_does_not_reach_the_next(runs):
    first = runs.request("1", session=True, echo="all")
    second = runs.request("import sys\nsys.displayhook(2)", session=True)
    assert runs.of([first, second]).stdout == "1\n2\n"
