"""E2B's sandboxes, with E2B's own SDK: their life, forks, snapshots, and who is let in."""

import datetime
import time

import pytest
from e2b import (
    AuthenticationException,
    SandboxException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)
from e2b_code_interpreter import Sandbox

from e2b_support import environment, sandbox  # noqa: F401


def test_life_of_a_sandbox():
    sandbox = Sandbox.create(metadata={"who": "x y&z", "n": "1"}, timeout=60)
    assert sandbox.is_running()
    info = sandbox.get_info()
    assert info.sandbox_id == sandbox.sandbox_id
    assert info.metadata == {"who": "x y&z", "n": "1"}
    assert info.state == SandboxState.RUNNING
    assert 50 < (info.end_at - datetime.datetime.now(datetime.timezone.utc)).total_seconds() <= 60
    sandbox.set_timeout(200)
    assert (sandbox.get_info().end_at - info.end_at).total_seconds() > 100
    listed = Sandbox.list(query=SandboxQuery(metadata={"who": "x y&z"})).next_items()
    assert [one.sandbox_id for one in listed] == [sandbox.sandbox_id]
    assert Sandbox.list(query=SandboxQuery(metadata={"who": "other"})).next_items() == []
    assert sandbox.get_metrics() == []
    same = Sandbox.connect(sandbox.sandbox_id)
    sandbox.run_code("x = 7")
    assert same.run_code("x").text == "7"
    # A connection does not shorten what is left.
    assert (same.get_info().end_at - info.end_at).total_seconds() > 100
    assert sandbox.kill() is True
    assert sandbox.kill() is False
    assert sandbox.is_running() is False
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect(sandbox.sandbox_id)
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()
    with pytest.raises(SandboxNotFoundException):
        sandbox.set_timeout(10)


def test_pages_of_sandboxes():
    made = [Sandbox.create(metadata={"page": "yes"}) for _ in range(3)]
    try:
        pages = Sandbox.list(query=SandboxQuery(metadata={"page": "yes"}), limit=2)
        first = pages.next_items()
        assert pages.has_next
        second = pages.next_items()
        assert not pages.has_next
        found = [one.sandbox_id for one in first + second]
        assert found == [one.sandbox_id for one in reversed(made)]
        pages = Sandbox.list(query=SandboxQuery(metadata={"page": "yes"}), order="asc")
        assert [one.sandbox_id for one in pages.next_items()] == found[::-1]
    finally:
        for one in made:
            one.kill()


def test_the_time_of_a_sandbox_is_enforced():
    sandbox = Sandbox.create(timeout=1)
    time.sleep(2)
    assert sandbox.is_running() is False
    with pytest.raises(TimeoutException):
        sandbox.run_code("1")
    assert sandbox.kill() is False


def test_the_end_of_the_time_ends_what_runs():
    sandbox = Sandbox.create(timeout=2)
    started = time.monotonic()
    with pytest.raises(TimeoutException, match="killed while"):
        sandbox.run_code("import time; time.sleep(30)")
    assert time.monotonic() - started < 10


def test_pause_and_connect(sandbox):
    sandbox.run_code("x = 1; open('f', 'w').write('f'); None")
    assert sandbox.pause() is True
    assert sandbox.pause() is False
    assert sandbox.is_running() is False
    assert sandbox.get_info().state == SandboxState.PAUSED
    paused = Sandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED])).next_items()
    assert sandbox.sandbox_id in [one.sandbox_id for one in paused]
    with pytest.raises(TimeoutException):
        sandbox.run_code("1")
    again = Sandbox.connect(sandbox.sandbox_id, timeout=100)
    assert again.is_running()
    assert again.run_code("x, open('f').read()").text == "(1, 'f')"
    again.pause(mode="filesystem")
    again.connect()
    assert again.run_code("open('f').read()").text == "f"
    assert again.run_code("x").error.name == "NameError"


def test_a_sandbox_that_is_paused_when_its_time_is_over():
    sandbox = Sandbox.create(timeout=1, lifecycle={"on_timeout": "pause"})
    try:
        sandbox.run_code("x = 1")
        time.sleep(2.5)
        assert sandbox.get_info().state == SandboxState.PAUSED
        assert sandbox.connect(timeout=60).run_code("x").text == "1"
    finally:
        sandbox.kill()


def test_forks(sandbox):
    sandbox.run_code("x = 1; open('f', 'w').write('f'); None")
    context = sandbox.create_code_context()
    sandbox.run_code("y = 1", context=context)
    forks = sandbox.fork(count=2)
    assert len({one.sandbox_id for one in [sandbox, *forks]}) == 3
    try:
        for n, fork in enumerate(forks):
            assert fork.run_code(f"x += {n + 1}; x, open('f').read()").text == f"({n + 2}, 'f')"
            assert fork.run_code("y", context=context).text == "1"
        assert sandbox.run_code("x").text == "1"
    finally:
        for fork in forks:
            fork.kill()
    with pytest.raises(SandboxNotFoundException):
        forks[0].fork()


def test_snapshots(sandbox):
    sandbox.run_code("x = 1; open('f', 'w').write('f'); None")
    snapshot = sandbox.create_snapshot(name="prepared")
    assert snapshot.names
    sandbox.run_code("x = 2")
    listed = sandbox.list_snapshots().next_items()
    assert [one.snapshot_id for one in listed] == [snapshot.snapshot_id]
    for template in (snapshot.snapshot_id, "prepared"):
        with Sandbox.create(template, envs={"NEW": "1"}) as other:
            assert other.run_code("x, open('f').read()").text == "(1, 'f')"
            assert other.run_code("import os; os.environ['NEW']").text == "1"
    bare = sandbox.create_snapshot(mode="filesystem")
    with Sandbox.create(bare.snapshot_id) as other:
        assert other.run_code("open('f').read()").text == "f"
        assert other.run_code("x").error.name == "NameError"
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False
    assert Sandbox.delete_snapshot(bare.snapshot_id) is True
    with pytest.raises(SandboxException, match="not found"):
        Sandbox.create(snapshot.snapshot_id)


def test_unknown_template_and_key(server):
    with pytest.raises(SandboxException, match="template 'nowhere' not found"):
        Sandbox.create("nowhere")
    with pytest.raises(AuthenticationException):
        Sandbox.create(api_key="e2b_nobody")
    with pytest.raises(SandboxException, match="24 hours"):
        Sandbox.create(timeout=10**6)
    with Sandbox.create("core") as sandbox:
        assert sandbox.run_code("1 + 1").text == "2"


def test_a_request_that_is_repeated_makes_one_sandbox():
    first = Sandbox.create(idempotency_key="once-1")
    second = Sandbox.create(idempotency_key="once-1")
    assert first.sandbox_id == second.sandbox_id
    first.kill()
    third = Sandbox.create(idempotency_key="once-1")
    assert third.sandbox_id != first.sandbox_id
    third.kill()
