"""Sessions of a store: used by any process, one at a time, with losses reported."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import belljar

pytestmark = pytest.mark.here("a server has a store of its own")

LEASE = 0.6


@pytest.fixture(scope="module")
def others():
    """A second runtime, as in another process."""
    with belljar.Runtime() as runtime:
        yield runtime


@pytest.fixture
def nodes(runtime, others, tmp_path):
    """Two nodes of one store."""
    options = {"lease": LEASE, "patience": 2 * LEASE}
    one = belljar.StoredSessions(tmp_path / "store", runtime, name="one", **options)
    with one, belljar.StoredSessions(tmp_path / "store", others, name="two", **options) as two:
        yield one, two


def other(code, store, *, wait=True):
    """Another process that uses the store of `sessions`."""
    program = f"import belljar, os, sys, time\nsessions = belljar.StoredSessions({str(store)!r}, "
    program += f"name='other', lease={LEASE}, patience={2 * LEASE})\n{textwrap.dedent(code)}"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if not wait:
        return process
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert errors == ""
    return out


def test_any_node_goes_on_with_a_session(nodes):
    one, two = nodes
    session = one.create({"of": "me"}, image="core", init_code="log = []")
    assert one.ids() == [session.id]
    assert session.run("log.append(1)").outcome.execution == 1
    there = two.session(session.id)
    run = there.run("log.append(2)\nopen('f', 'w').write('text')\nresult = log")
    assert (run.result, run.outcome.execution) == ([1, 2], 2)
    assert run["f"] == b"text"
    assert session.get("log") == [1, 2]
    session.set("log", (3,))
    assert there.evaluate({"n": "len(log)", "x": "nothing"})["n"] == 1
    assert [entry.execution for entry in there.history()] == [1, 2]
    assert session.read("f") == b"text"
    info = there.info
    assert (info.id, info.execution, info.about) == (session.id, 2, {"of": "me"})
    assert info.node is None
    assert abs(info.used - time.time()) < 60
    assert two.counts["woken"] >= 1
    there.rewind(1)
    assert session.get("log") == [1]
    session.remove()
    assert there.info is None
    with pytest.raises(belljar.SessionError) as caught:
        there.run("1")
    assert caught.value.code == "session.not_found"


def test_forks_are_sessions_of_the_store(nodes):
    one, two = nodes
    session = one.create(image="core", init_code="x = [1]")
    fork = two.session(session.id).fork({"of": session.id})
    fork.run("x.append(2)")
    assert session.get("x") == [1]
    assert one.session(fork.id).get("x") == [1, 2]
    assert fork.info.about == {"of": session.id}
    assert sorted(one.ids()) == sorted([session.id, fork.id])
    assert fork == two.session(fork.id)


def test_a_block_has_the_session_to_itself(nodes):
    one, two = nodes
    stored = one.create(image="core", init_code="x = 1")
    with stored.claim() as session:
        session.files.write("a", b"data")
        session.run("x = 2")
        session.run("x += int(open('a').read() == 'data')")
        assert stored.info.node == "one"
        with pytest.raises(belljar.SessionError) as caught:
            two.session(stored.id).run("x = 100")
        assert caught.value.code == "session.elsewhere"
    assert two.session(stored.id).get("x") == 3
    for use in (lambda: session.run("1"), lambda: session.get("x"), session.fork):
        with pytest.raises(belljar.SessionError, match="given back"):
            use()
    assert session.id == stored.id
    session = use = None
    gc.collect()
    assert stored.get("x") == 3
    # An exception in a block does not discard the changes before it.
    holding = stored.claim()
    holding.__enter__().run("x = 4")
    error = LookupError()
    holding.__exit__(LookupError, error, None)
    assert two.session(stored.id).get("x") == 4


def test_a_handle_whose_session_was_put_into_a_store(nodes, runtime, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: unraisable.append(str(told.exc_value)))
    one, _ = nodes
    session = runtime.session(image="core", init_code="x = 1")
    stored = one.add(session)
    with pytest.raises(belljar.SessionError, match="put into a store"):
        session.run("1")
    session.close()
    session = None
    gc.collect()
    assert unraisable == []
    assert stored.get("x") == 1


async def test_twins(runtime, tmp_path):
    async with await belljar.StoredSessions.aopen(tmp_path, runtime) as sessions:
        session = await sessions.acreate(image="core", init_code="x = 1")
        assert (await session.arun("x += 1\nresult = x")).result == 2
        assert await session.aget("x") == 2
        await session.aset("x", 5)
        assert await session.aevaluate({"a": "x + 1"}) == {"a": 6}
        assert len(await session.ahistory()) == 1
        assert await session.awaiting() == []
        async with session.claim() as held:
            run = await held.arun("open('f', 'w').write('1')")
            assert await held.aread("f") == b"1"
        assert await session.aread("f") == b"1"
        [copied] = await session.acopy_to(run.files, tmp_path / "out")
        assert copied.read_text() == "1"
        fork = await session.afork()
        await session.arewind(0)
        assert await session.aget("x") == 1
        assert await fork.aget("x") == 5
        assert (await fork.ainfo()).execution == 2
        assert not await fork.ainterrupt()
        assert sorted(await sessions.aids()) == sorted([session.id, fork.id])
        await fork.aremove()
        assert await fork.ainfo() is None
        assert await sessions.atidy() == (0, 0)
        sessions.sweep(0)
        assert await session.aget("x") == 1


async def test_runs_at_once_go_one_after_the_other(nodes):
    one, two = nodes
    session = await one.acreate(image="core", init_code="log = []")
    code = "log.append({n})\nresult = len(log)"
    runs = [(one if n % 2 else two).session(session.id).arun(code.format(n=n)) for n in range(12)]
    results = [run.result for run in await asyncio.gather(*runs)]
    assert sorted(results) == list(range(1, 13))
    assert sorted(await session.aget("log")) == list(range(12))


async def test_cancelled_runs_are_dropped(nodes):
    one, two = nodes
    session = await one.acreate(image="core", init_code="x = 1")
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(session.arun("x = 2\nwhile True: pass", timeout=60), 0.5)
    assert await two.session(session.id).aget("x") == 1
    # The same for a session that waits for another process.
    async with session.claim():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(two.session(session.id).arun("x = 3"), 0.1)
    assert (await two.session(session.id).arun("result = x")).result == 1


def test_a_run_is_interrupted_from_anywhere(nodes):
    one, two = nodes
    session = one.create(image="core", init_code="x = 1")
    assert not two.session(session.id).interrupt()
    runs = []
    code = "x = 2\nwhile True: pass"
    thread = threading.Thread(target=lambda: runs.append(session.run(code, timeout=60)))
    thread.start()
    until(lambda: session.info.node == "one")
    time.sleep(0.2)
    assert two.session(session.id).interrupt()
    thread.join(20)
    assert runs[0].error.kind == "interrupted"
    assert two.session(session.id).get("x") == 2


def test_ctrl_c_gives_the_session_back(nodes):
    one, two = nodes
    session = one.create(image="core", init_code="x = 1")
    threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        session.run("x = 2\nwhile True: pass", timeout=60)
    assert two.session(session.id).get("x") == 2


def test_a_process_that_is_killed_loses_the_run_in_flight(nodes, tmp_path):
    one, _ = nodes
    session = one.create(image="core", init_code="x = 0")
    program = f"""
        session = sessions.session({session.id!r})
        session.run("x = 1")
        sessions.settle()
        print("begun", flush=True)
        session.run("x = 2\\nwhile True: pass", timeout=60)
    """
    process = other(program, tmp_path / "store", wait=False)
    assert process.stdout.readline() == "begun\n"
    until(lambda: session.info.node == "other")
    process.kill()
    process.communicate()
    run = session.run("result = x")
    assert run.result == 1
    assert run.outcome.interpreter_restarted
    assert run.outcome.restart_reason == (
        "run 2 was lost: node other went away before its end was written down"
    )
    assert one.counts["taken_over"] == 1
    assert session.run("result = x").outcome.restart_reason is None


def test_a_process_that_ends_leaves_what_it_did(nodes, tmp_path):
    one, _ = nodes
    session = one.create(image="core", init_code="x = 0")
    # This path does not wait for the state to be written.
    other(f'sessions.session({session.id!r}).run("x = list(range(100_000))")', tmp_path / "store")
    run = session.run("result = len(x)")
    assert (run.result, run.outcome.restart_reason) == (100_000, None)


def test_what_is_durable_is_there_with_its_answer(nodes, others, tmp_path):
    one, _ = nodes
    durable = belljar.StoredSessions(tmp_path / "store", others, name="three", durable=True)
    session = durable.create(image="core")
    for n in range(3):
        session.run(f"x = {n}")
        info = one.session(session.id).info
        assert (info.node, info.execution) == (None, n + 1)


def test_options_are_looked_at(runtime, tmp_path):
    sessions = belljar.StoredSessions(tmp_path, runtime)
    with pytest.raises(TypeError, match="tools belongs to one process"):
        sessions.create(tools=[print])
    with pytest.raises(TypeError, match="mounts belongs to one process"):
        sessions.create(mounts={"/data": tmp_path})
    with pytest.raises(TypeError, match="did you mean 'timeout'"):
        sessions.session("x").run("1", timeuot=1)
    session = sessions.create(image="core", init_code="x = 1")
    with pytest.raises(belljar.RefusedError):
        session.run("x = 2", timeout=10_000)
    assert session.info.execution == 0
    for url in ("http://example.org/", "s3:"):
        with pytest.raises((ValueError, belljar.BelljarError)):
            belljar.StoredSessions(url, runtime)
    (tmp_path / "file").write_text("")
    with pytest.raises(belljar.StoreError) as caught:
        belljar.StoredSessions(tmp_path / "file", runtime)
    assert caught.value.code == "store.failed"
    with pytest.raises(TypeError, match="cannot be pickled"):
        session.__reduce__()
    # By URL, for experiments.
    assert belljar.StoredSessions(f"file://{tmp_path}", runtime).ids() == [session.id]
    assert belljar.StoredSessions("memory:", runtime).ids() == []


def test_tools_are_given_to_runs(nodes):
    def add(a: int, b: int) -> int:
        return a + b

    one, two = nodes
    session = one.create(image="core")
    code = "import tools\nresult = tools.add(1, 2)"
    assert session.run(code, tools=[add]).result == 3
    assert two.session(session.id).run(code, tools=[add]).result == 3


def test_after_a_fork(nodes):
    one, _ = nodes
    session = one.create(image="core", init_code="x = 1")
    holding = session.claim()
    holding.__enter__()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            one.ids()
        except belljar.ForkedError:
            status = 0
        finally:
            del holding
            gc.collect()
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    holding.__exit__(None, None, None)
    assert session.get("x") == 1


def until(is_so, seconds=20):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
