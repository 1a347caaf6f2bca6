"""Sessions: kept state, forks, rewinds, checkpoints."""

import gc
import pickle
import threading
import time

import pytest

import belljar


def test_state_stays(session):
    session.run("x = 20")
    run = session.run("x + 1")
    assert run.stdout == "21\n"
    assert run.outcome.interpreter_id == session.id
    assert run.outcome.execution == 2
    assert session.execution() == 2
    assert [entry.code for entry in session.history()] == ["x = 20", "x + 1"]


def test_forks_go_their_own_way(session):
    session.run("x = [1]")
    other = session.fork()
    session.run("x.append(2)")
    assert other.get("x") == [1]
    assert session.get("x") == [1, 2]
    assert other.id != session.id


def test_rewinding(session):
    session.run("x = 1\nopen('a', 'w').write('one')")
    session.run("x = 2\nopen('b', 'w').write('two')")
    kept = session.rewind_keeping(1)
    assert session.get("x") == 1
    assert kept.get("x") == 2
    assert [entry.path for entry in session.files.list()] == ["a"]
    session.reset()
    assert session.get("x", "gone") == "gone"
    with pytest.raises(belljar.SessionError) as caught:
        session.rewind(9)
    assert caught.value.code == "session.no_state"


def test_checkpoints(runtime, session, tmp_path):
    session.run("x = {1: 'a'}")
    session.checkpoint(tmp_path / "s.belljar")
    data = session.checkpoint()
    assert isinstance(data, bytes)
    session.run("x.clear()")
    for origin in (tmp_path / "s.belljar", str(tmp_path / "s.belljar"), data):
        with runtime.restore(origin) as restored:
            assert restored.get("x") == {1: "a"}
    with session.restore(data) as restored:
        assert restored.get("x") == {1: "a"}
    with pytest.raises(belljar.SessionError) as caught:
        runtime.restore(b"nothing of the kind")
    assert caught.value.code == "session.not_a_checkpoint"
    with runtime.restore(data, client="me") as restored:
        assert restored.info.client == "me"


@pytest.mark.here("a server chooses the ids of sessions, and takes no lease for a restored one")
def test_a_restored_session_has_the_id_and_the_lease_of_its_restorer(runtime, session):
    session.run("x = 1")
    with runtime.restore(session.checkpoint(), id="chosen", lease=(60, "suspend")) as restored:
        assert restored.id == "chosen"
        assert restored.extend_lease(30)
    with pytest.raises(ValueError, match="close or suspend"):
        runtime.restore(session.checkpoint(), lease=(1, "drop"))


def test_a_restored_session_has_the_limits_of_its_restorer(runtime, tmp_path):
    def double(x: int) -> int:
        return 2 * x

    with runtime.session(image="core", total_fuel=10**12) as session:
        session.run("x = 1")
        data = session.checkpoint()
    with runtime.restore(data, total_fuel=1, policy="strict") as restored:
        assert "fuel" in restored.run("print(x)").error.message
    with runtime.restore(data, policy="strict") as restored:
        assert restored.run("import os").error.kind == "policy"
        assert restored.run("import math\nx").result is None
    with runtime.restore(data, idle=0.05) as restored:
        restored.run("1")
        time.sleep(0.2)
        assert "idle" in restored.run("1").error.message
    with runtime.restore(data, lifetime=0.0) as restored:
        assert "lifetime" in restored.run("1").error.message
    with runtime.restore(data, lifetime=None, policy=None) as restored:
        assert restored.run("import os; print(x)").stdout == "1\n"
    with runtime.restore(data, tools=[double], mounts=None) as restored:
        assert restored.run("import tools; print(tools.double(x=x))").stdout == "2\n"
        with restored.restore(data, total_fuel=1) as other:
            assert "fuel" in other.run("print(x)").error.message
    with pytest.raises(TypeError, match="restore has no option 'lifetim'; did you mean 'lifetime'"):
        runtime.restore(data, lifetim=1)
    with pytest.raises(ValueError, match="unknown variant `lenient`"):
        runtime.restore(data, policy="lenient")


def test_files_without_a_run(session, tmp_path):
    files = session.files
    assert files.write("data/a.txt", "one").size == 3
    (tmp_path / "host").write_bytes(b"from the host")
    files.write("b", tmp_path / "host")
    files.make_dir("empty/dir")
    assert [(entry.path, entry.kind) for entry in files.list("", 2)] == [
        ("b", "file"),
        ("data", "directory"),
        ("data/a.txt", "file"),
        ("empty", "directory"),
        ("empty/dir", "directory"),
    ]
    assert files.read("b", 5, 8) == b"the"
    files.rename("b", "c")
    assert files.stat("c").size == 13
    assert session.run("print(open('c').read())").stdout == "from the host\n"
    files.remove("data")
    with pytest.raises(belljar.NoSuchFileError):
        files.read("data/a.txt")
    with pytest.raises(belljar.SessionError) as caught:
        files.write("../out", "x")
    assert caught.value.code == "session.path"


def test_files_of_a_run(session, tmp_path):
    run = session.run("open('a.txt', 'w').write('one')")
    assert run["a.txt"] == b"one"
    assert session.read("a.txt") == b"one"
    assert [path.read_text() for path in run.save(tmp_path / "out")] == ["one"]
    assert run.path("a.txt").read_text() == "one"


def test_questions(session):
    session.run("import math\nvalue = 3\ndef f(a, b=1):\n    'Adds.'\n    return a + b")
    assert "math" in session.complete("mat").matches
    found = session.inspect("f", detail=True)
    assert found.signature == "f(a, b=1)"
    assert found.doc == "Adds."
    assert found.class_.endswith("function")
    assert session.inspect("nothing_of_the_kind") is None
    assert session.is_complete("x = 1").status == "complete"
    assert session.is_complete("if x:").indent == "    "
    values = session.evaluate({"a": "value * 2", "b": "1 / 0"})
    assert values["a"] == 6
    assert "ZeroDivisionError" in str(values["b"])


def test_variables(session):
    session.set("x", {1: (2, 3)})
    assert session.run("print(x)").stdout == "{1: (2, 3)}\n"
    with pytest.raises(TypeError, match="no typed form"):
        session.set("x", object())


def test_an_interrupt_keeps_the_session(session):
    session.run("x = 0")
    runs = []
    thread = threading.Thread(
        target=lambda: runs.append(session.run("x = 1\nwhile True: pass", timeout=30))
    )
    thread.start()
    time.sleep(0.3)
    assert session.interrupt()
    thread.join(10)
    assert runs[0].error.kind == "interrupted"
    assert session.get("x") == 1
    assert not session.interrupt()


def test_a_crash_costs_the_run(session):
    session.run("x = 1")
    run = session.run("x = 2\nimport os\nos._exit(3)")
    assert run.error.kind == "crash"
    assert run.outcome.interpreter_restarted
    assert "status 3" in run.outcome.restart_reason
    assert session.get("x") == 1


def test_options(runtime):
    options = {
        "image": "core",
        "init_code": "x = 5",
        "files": {"a": "one"},
        "env": {"A": "b"},
        "labels": {"who": "me"},
        "lifetime": 60,
        "idle": 60,
        "total_fuel": 10**12,
        "history": (5, 1 << 20),
        "lease": (60, "suspend"),
        "timeout": 0.2,
    }
    with runtime.session(**options) as session:
        assert session.get("x") == 5
        assert session.labels == {"who": "me"}
        session.labels = {"who": "you"}
        assert session.info.labels == {"who": "you"}
        assert session.info.image == "core"
        assert 50 < session.info.lease_seconds <= 60
        assert session.extend_lease(120)
        assert session.run("while True: pass").error.kind == "timeout"
        assert session.suspend()
        assert session.info.status == "suspended"
        assert session.get("x") == 5
    with pytest.raises(TypeError, match="session has no option 'capture'"):
        runtime.session(capture={})
    with pytest.raises(belljar.SessionError) as caught:
        runtime.session(image="core", init_code="1 / 0")
    assert caught.value.code == "session.initial_code"
    assert caught.value.blame == "guest"


def test_finding_sessions(runtime):
    with runtime.session_for("Ada", image="core", init_code="x = 1") as session:
        assert runtime.session_for("Ada") is session
        assert runtime.find(session.id) is session
        assert session.id in [info.id for info in runtime.sessions()]
    with pytest.raises(belljar.SessionError) as caught:
        session.run("1")
    assert caught.value.code == "session.not_found"
    with pytest.raises(belljar.SessionError):
        runtime.find(session.id)


@pytest.mark.here("a server has no snapshots")
def test_snapshots(runtime):
    with runtime.session(image="core", init_code="x = 1") as session:
        session.snapshot("start")
        assert "start" in runtime.snapshots()
        with runtime.session_from("start") as other:
            assert other.get("x") == 1
        runtime.drop_snapshot("start")
        assert "start" not in runtime.snapshots()


def test_a_session_goes_with_its_last_handle(runtime):
    session = runtime.session(image="core")
    id = session.id
    run = session.run("open('a', 'w').write('x')")
    del session
    gc.collect()
    # The run reads files from it.
    assert run["a"] == b"x"
    del run
    gc.collect()
    # A server is told on another thread.
    ends = time.monotonic() + 10
    while id in [info.id for info in runtime.sessions()] and time.monotonic() < ends:
        time.sleep(0.01)
    assert id not in [info.id for info in runtime.sessions()]


def test_sessions_are_no_data(session):
    for handle in (session, session.files):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(handle)


def test_deferred_tools(runtime):
    approve = belljar.Tool.deferred(
        "approve", {"type": "object", "properties": {"amount": {"type": "integer"}}}
    )
    with runtime.session(image="core", tools=[approve]) as session:
        run = session.run("import tools\nok = tools.approve(amount=900)\nprint(ok)")
        assert run.error.kind == "waiting"
        [call] = session.waiting()
        assert (call.name, call.arguments) == ("approve", {"amount": 900})
        data = session.checkpoint()
        run = session.answer({call.id: True})
        assert run.stdout == "True\n"
    with runtime.restore(data) as restored:
        [call] = restored.waiting()
        run = restored.answer({}, failed={call.id: "no"})
        assert "no" in str(run.error)
