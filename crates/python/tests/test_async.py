"""Event loops: awaited runs, events as they happen, cancellation."""

import asyncio
import os
import signal
import threading
import time

import pytest

import belljar


async def test_awaited_runs(runtime):
    run = await runtime.arun("result = 1", image="core")
    assert run.result == 1
    assert (await belljar.arun("result = 2", image="core")).result == 2


async def test_many_at_the_same_time(runtime):
    runs = await asyncio.gather(
        *(runtime.arun(f"result = {n} ** 2", image="core") for n in range(100))
    )
    assert [run.result for run in runs] == [n**2 for n in range(100)]


async def test_the_loop_goes_on(runtime):
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    task = asyncio.create_task(tick())
    await runtime.arun("while True: pass", image="core", timeout=0.5)
    task.cancel()
    assert ticks > 10


async def test_errors_are_raised_where_it_is_awaited(runtime):
    with pytest.raises(belljar.RefusedError):
        await runtime.arun("1", timeout=10_000)
    with pytest.raises(TypeError, match="arun has no option"):
        await runtime.arun("1", timout=1)


async def test_twins(runtime, tmp_path):
    async with await runtime.asession(image="core", init_code="x = 1") as session:
        assert await session.aget("x") == 1
        await session.aset("x", (1, 2))
        run = await session.arun("y = x\nopen('f', 'w').write('text')")
        assert run["f"] == b"text"
        assert await session.aread("f") == b"text"
        assert await session.aexecution() == 1
        assert [entry.code for entry in await session.ahistory()] == [run.outcome.code]
        fork = await session.afork()
        await fork.arewind(0)
        assert await fork.aget("y", "none") == "none"
        kept = await session.arewind_keeping(0)
        assert await kept.aget("y") == (1, 2)
        await session.areset()
        data = await kept.acheckpoint()
        restored = await runtime.arestore(data)
        assert (await restored.aevaluate({"a": "y[0]"}))["a"] == 1
        await kept.acheckpoint(tmp_path / "c")
        await (await session.arestore(tmp_path / "c")).arun("1")
        assert "math" in (await session.acomplete("import mat")).matches
        assert (await session.ainspect("print")).name == "print"
        assert (await session.ais_complete("x =")).status == "invalid"
        assert await session.asuspend()
        assert await session.awaiting() == []
        files = session.files
        await files.awrite("a", b"1")
        await files.amake_dir("d")
        await files.arename("a", "d/b")
        assert await files.aread("d/b") == b"1"
        assert (await files.astat("d/b")).size == 1
        assert [entry.path for entry in await files.alist()] == ["d"]
        await files.aremove("d")
        run = await session.arun("open('g', 'w').write('x')")
        [copied] = await session.acopy_to(run.files, tmp_path / "out")
        assert copied.read_text() == "x"
        assert (await runtime.asession_for("client", image="core")).info.client == "client"
    assert (await runtime.acheck("import torch")).missing_imports == ["torch"]
    assert (await runtime.images.aget("core")).name == "core"
    assert (await runtime.images.alist())[0].name == "core"
    await runtime.images.aprepare("core")


async def test_a_runtime_is_made_without_holding_up_the_loop():
    runtime = await belljar.Runtime.abuild(concurrency=2)
    assert (await runtime.arun("result = 1", image="core")).result == 1
    runtime.close()
    with pytest.raises(belljar.ClosedError):
        await runtime.arun("1", image="core")


@pytest.mark.here("a server interrupts such a run, and the session keeps what was done")
async def test_cancelled_runs_are_dropped(runtime):
    session = await runtime.asession(image="core", init_code="x = 1")
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(session.arun("x = 2\nwhile True: pass", timeout=60), 0.3)
    began = time.monotonic()
    assert await session.aget("x") == 1
    assert time.monotonic() - began < 5
    run = await session.arun("pass")
    assert "cancelled" in run.outcome.restart_reason
    session.close()


def test_without_a_loop_there_is_a_sentence(runtime):
    coroutine = runtime.arun("1", image="core")
    with pytest.raises(RuntimeError, match="no event loop runs on this thread"):
        coroutine.send(None)


def test_a_loop_after_the_other(runtime):
    session = runtime.session(image="core", init_code="x = 1")

    async def use():
        return await session.aget("x"), (await runtime.arun("result = 2", image="core")).result

    assert asyncio.run(use()) == (1, 2)
    assert asyncio.run(use()) == (1, 2)
    session.close()


def test_a_loop_that_is_closed_while_something_runs(runtime):
    async def leave():
        task = asyncio.ensure_future(runtime.arun("import time\ntime.sleep(0.3)", image="core"))
        await asyncio.sleep(0.1)
        assert not task.done()

    asyncio.run(leave())
    time.sleep(0.4)
    assert runtime.run("result = 1", image="core").result == 1


def test_blocking_calls_inside_a_loop_block_it(runtime):
    async def use():
        return runtime.run("result = 1", image="core").result

    assert asyncio.run(use()) == 1


CODE = """
import sys, time
print("one")
print("two", file=sys.stderr)
display({"text/plain": "shown"}, raw=True)
open("f", "w").write("x")
1 / 0
"""


def test_events_come_in_order(runtime):
    events = []
    threads = set()

    def on_event(event):
        threads.add(threading.current_thread())
        if event.type == "stdout" and events[-1].type == "stdout":
            # Output may come in pieces.
            whole = {**event.to_dict(), "text": events.pop().text + event.text}
            event = type(event)(whole)
        if not (event.type == "stderr" and events[-1].type == "stderr"):
            events.append(event)

    run = runtime.run(CODE, image="core", on_event=on_event)
    assert not run.success
    assert [event.type for event in events] == [
        "started",
        "stdout",
        "stderr",
        "display",
        "file_written",
        "error",
        "ended",
    ]
    assert events[1].text == "one\n"
    assert events[3].data == {"text/plain": "shown"}
    assert events[4].path == "f"
    assert events[5].error == "ZeroDivisionError: division by zero"
    assert events[6].success is False
    assert events[1].path is None
    assert threads == {threading.current_thread()}
    with pytest.raises(AttributeError):
        events[0].nothing  # noqa: B018


async def test_events_come_on_the_loop(runtime):
    events = []
    over = []

    def on_event(event):
        assert not over
        asyncio.get_running_loop()
        events.append(event.type)

    await runtime.arun("for n in range(2000): print(n)", image="core", on_event=on_event)
    over.append(True)
    assert events[0] == "started"
    assert events[-1] == "ended"
    assert events.count("stdout") >= 1


def test_events_come_as_they_happen(runtime):
    times = []

    def on_event(event):
        if event.type == "stdout":
            times.append(time.monotonic())

    code = "import time\nprint(1)\ntime.sleep(0.4)\nprint(2)"
    runtime.run(code, image="core", on_event=on_event)
    assert times[-1] - times[0] > 0.3


def test_the_function_may_use_the_session(runtime):
    with runtime.session(image="core") as session, runtime.session(image="core") as other:
        seen = []
        session.run("x = 1\nprint(x)", on_event=lambda e: seen.append(other.get("x", e.type)))
        assert (seen[0], seen[-1]) == ("started", "ended")


def test_a_function_that_raises_interrupts_the_run(runtime, session):
    def on_event(event):
        if event.type == "stdout":
            raise LookupError("enough")

    session.run("x = 0")
    with pytest.raises(LookupError, match="enough"):
        session.run("x = 1\nprint(x)\nwhile True: pass", timeout=60, on_event=on_event)
    assert session.get("x") == 1

    async def use():
        with pytest.raises(LookupError, match="enough"):
            await runtime.arun("print(1)\nwhile True: pass", timeout=60, on_event=on_event)

    asyncio.run(use())


def test_ctrl_c_interrupts_the_guest_and_keeps_the_session(session):
    session.run("x = 0")
    for options in ({}, {"on_event": lambda event: None}):
        timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
        timer.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            session.run("x += 1\nwhile True: pass", timeout=60, **options)
        assert time.monotonic() - began < 5
        timer.join()
    assert session.get("x") == 2
    assert session.run("x").outcome.interpreter_restarted is False


def test_ctrl_c_without_anything_to_interrupt(runtime, session, tmp_path):
    blocker = threading.Thread(target=lambda: session.run("import time\ntime.sleep(1)", timeout=10))
    blocker.start()
    time.sleep(0.2)
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        session.get("x")
    blocker.join()


def test_other_signals_are_handled_while_it_waits(runtime):
    seen = []

    def handler(*_):
        seen.append(runtime.run("result = 1", image="core").result)

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        run = runtime.run("import time\ntime.sleep(0.6)", image="core")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert run.success
    assert seen == [1]
