"""Runtimes in a process of their own: the tests for all kinds of runtimes are in other files."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import belljar
from belljar import _process
from test_processes import ENDLESS, assert_clean, python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of processes")

START = 'runtime = belljar.Runtime(isolation="process")'


@pytest.fixture
def isolated():
    with belljar.Runtime(isolation="process") as runtime:
        yield runtime


def pid_of(runtime):
    return runtime._core.link._worker.pid


def status(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def descriptors(pid):
    """What the open descriptors of a process refer to."""
    held = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            held.append(os.readlink(entry))
        except FileNotFoundError:
            pass
    return held


def is_gone(pid, within=10):
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            if status(pid)["State"].startswith("Z"):
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def kill_soon(runtime):
    pid = pid_of(runtime)
    timer = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
    timer.start()
    return pid


def kill(runtime):
    worker = runtime._core.link._worker
    os.kill(worker.pid, signal.SIGKILL)
    assert worker.ended(10) == "it was ended by signal 9"
    return worker.pid


def test_what_isolation_can_be():
    with pytest.raises(ValueError, match="'none' or 'process', not 'thread'"):
        belljar.Runtime(isolation="thread")
    with belljar.Runtime(isolation="none") as runtime:
        assert runtime.run("result = 1", image="core").result == 1


def test_settings_hold_in_the_process(tmp_path, monkeypatch):
    with pytest.raises(belljar.SetupError):
        belljar.Runtime(isolation="process", wheel=tmp_path / "none", cache=tmp_path)
    with belljar.Runtime(isolation="process", ceilings={"timeout": 1}) as runtime:
        with pytest.raises(belljar.RefusedError):
            runtime.run("1", timeout=2)
        assert runtime.run("result = 1", image="core", timeout=1).result == 1


def test_a_run_whose_process_is_killed(isolated):
    killed = kill_soon(isolated)
    with pytest.raises(belljar.ProcessError, match="signal 9") as caught:
        isolated.run("while True: pass", image="core", timeout=60)
    assert caught.value.code == "process.ended"
    assert caught.value.hint
    assert is_gone(killed)
    assert isolated.run("result = 1", image="core").result == 1
    assert pid_of(isolated) != killed


def test_a_watched_run_whose_process_is_killed(isolated):
    killed = pid_of(isolated)

    def end() -> int:
        os.kill(killed, signal.SIGKILL)
        return 1

    with pytest.raises(belljar.ProcessError, match="signal 9"):
        isolated.run("import tools\ntools.end()\nwhile True: pass", image="core", tools=[end])


def test_a_session_whose_process_is_killed(isolated):
    session, other = isolated.session(image="core"), isolated.session(image="core")
    session.run("x = 1")
    kill_soon(isolated)
    with pytest.raises(belljar.ProcessError):
        session.run("while True: pass", timeout=60)
    for lost in (session, other):
        with pytest.raises(belljar.SessionError, match=r"has ended: .* signal 9"):
            lost.run("x")
    session.close()
    assert isolated.session(image="core", init_code="x = 2").get("x") == 2


def test_closing_what_is_lost_starts_no_process(isolated):
    session = isolated.session(image="core")
    killed = kill(isolated)
    session.close()
    isolated.close()
    assert pid_of(isolated) == killed


def test_many_calls_start_one_process(isolated):
    killed = kill(isolated)
    pids, results = set(), []

    def use():
        results.append(isolated.run("result = 1", image="core").result)
        pids.add(pid_of(isolated))

    threads = [threading.Thread(target=use) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [1] * 16
    assert len(pids - {killed}) == len(pids) == 1


def test_a_lost_connection_is_not_the_end_of_the_process_before(isolated):
    kill(isolated)

    def cut() -> None:
        (call,) = isolated._core.link._calls
        call._socket.shutdown(socket.SHUT_RDWR)

    with pytest.raises(belljar.ServerError, match="connection to the process was lost"):
        isolated.run("import tools\ntools.cut()", image="core", tools=[cut])


def test_a_process_that_takes_no_connection(isolated, monkeypatch):
    class Busy:
        def connect(self):
            raise BlockingIOError

        def ended(self, _):
            return None

        def stop(self):
            pass

        authorization = ""

    monkeypatch.setattr(_process, "_LONGEST_PAUSE", 0.1)
    link = isolated._core.link
    link._worker.stop()
    link._worker = Busy()
    with pytest.raises(belljar.ServerError) as caught:
        isolated.run("1")
    assert caught.value.code == "server.timeout"


def test_it_outlives_the_thread_that_made_it():
    made = []
    thread = threading.Thread(target=lambda: made.append(belljar.Runtime(isolation="process")))
    thread.start()
    thread.join()
    with made[0] as runtime:
        pid = pid_of(runtime)
        time.sleep(0.5)
        assert runtime.run("result = 1", image="core").result == 1
        assert pid_of(runtime) == pid


def test_the_process_is_locked_down_and_has_no_credentials(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    with belljar.Runtime(isolation="process") as runtime:
        pid = pid_of(runtime)
        assert status(pid)["NoNewPrivs"] == "1"
        assert status(pid)["Seccomp"] == "2"
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"AWS_SECRET" not in environment


def test_the_process_inherits_no_descriptors():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        own = os.readlink(f"/proc/self/fd/{listener.fileno()}")
        with belljar.Runtime(isolation="process") as runtime:
            held = descriptors(pid_of(runtime))
    assert held
    assert own not in held


PROBE = """
import json, os, sys, threading, time
def opens(path):
    try:
        open(path, "rb").close()
    except OSError:
        return False
    return True
def ends(parent):
    try:
        os.kill(parent, 0)
    except OSError:
        return False
    return True
def probe():
    parent = os.getppid()
    tries = lambda: [opens(FILE), opens(f"/proc/{parent}/mem"), ends(parent)]
    before = tries()
    while any(found := tries()):
        time.sleep(0.01)
    print(json.dumps([before, found]), file=sys.stderr, flush=True)
    os._exit(7)
threading.Thread(target=probe).start()
"""


def test_code_that_has_broken_out_reaches_nothing_of_the_parent(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("x")
    probe = f"FILE = {str(tmp_path / 'secret')!r}\n{PROBE}"
    program = _process._PROGRAM.replace("module.work()", f"{probe}module.work()")
    monkeypatch.setattr(_process, "_PROGRAM", program)

    def use():
        with belljar.Runtime(isolation="process") as runtime:
            runtime.run("while True: pass", image="core", timeout=60)

    with pytest.raises(belljar.ProcessError, match="status 7") as caught:
        use()
    told = caught.value.args[0]
    before, after = json.loads(told[told.index("[[") :])
    # Some kernels keep the memory of a parent from every child.
    read = "import os\nopen(f'/proc/{os.getppid()}/mem', 'rb')"
    is_open = subprocess.run([sys.executable, "-c", read], stderr=subprocess.DEVNULL, check=False)
    assert before == [True, is_open.returncode == 0, True]
    assert after == [False, False, False]


def test_the_process_ends_with_its_parent():
    done, _ = python(f"""
        import belljar, os, signal, threading, time
        {START}
        print(runtime._core.link._worker.pid, flush=True)
        threading.Thread(target=lambda: {ENDLESS}, daemon=True).start()
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert is_gone(int(done.stdout))


def test_exit_during_a_run():
    done, took = python(f"""
        import belljar, threading, time
        {START}
        print(runtime._core.link._worker.pid, flush=True)
        def use():
            try:
                {ENDLESS}
            except belljar.ClosedError:
                pass
        threading.Thread(target=use, daemon=True).start()
        time.sleep(0.5)
    """)
    assert_clean(done)
    assert took < 20
    assert is_gone(int(done.stdout), within=0.1)


def test_fifty_runtimes_leave_nothing(tmp_path):
    done, _ = python(
        """
        import belljar, gc, os, threading, time

        def left():
            tasks = os.listdir("/proc/self/task")
            children = 0
            for task in tasks:
                try:
                    with open(f"/proc/self/task/{task}/children") as held:
                        children += len(held.read().split())
                except FileNotFoundError:
                    pass
            return len(os.listdir("/proc/self/fd")), len(tasks), children

        def use(closes):
            runtime = belljar.Runtime(isolation="process")
            assert runtime.run("result = 1", image="core").result == 1
            session = runtime.session(image="core")
            if closes:
                runtime.close()

        with belljar.Runtime(isolation="process"):
            assert left()[2] == 1
        use(True)
        before = left()
        for number in range(50):
            use(number % 2)
        gc.collect()
        end = time.monotonic() + 10
        def grown(after):
            return any(now > then for now, then in zip(after, before, strict=True))

        while grown(after := left()) and time.monotonic() < end:
            time.sleep(0.05)
        assert not grown(after), (before, after)
        """,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=120,
    )
    assert_clean(done)
    assert list(tmp_path.iterdir()) == []


def test_an_exit_with_a_session_alone_leaves_nothing(tmp_path):
    done, _ = python(
        """
        import belljar
        session = belljar.Runtime(isolation="process").session(image="core")
        session.run("x = 1")
        """,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert_clean(done)
    assert list(tmp_path.iterdir()) == []


def test_a_fork_leaves_the_process_to_its_parent():
    done, _ = python(f"""
        import belljar, gc, os, sys, warnings
        warnings.simplefilter("ignore")
        {START}
        session = runtime.session(image="core", init_code="x = 1")
        child = os.fork()
        if child == 0:
            try:
                runtime.run("1")
            except belljar.ForkedError:
                runtime.close()
                del runtime, session
                gc.collect()
                with belljar.Runtime(isolation="process") as own:
                    assert own.run("result = 1", image="core").result == 1
                sys.exit(3)
            sys.exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert session.get("x") == 1
    """)
    assert_clean(done)


async def test_event_loops():
    runtime = await belljar.Runtime.abuild(isolation="process")
    with runtime:
        runs = [runtime.arun(f"result = {n}", image="core") for n in range(8)]
        assert [run.result for run in await asyncio.gather(*runs)] == list(range(8))
        endless = asyncio.ensure_future(runtime.arun("while True: pass", image="core", timeout=60))
        await asyncio.sleep(0.3)
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless


def test_what_a_process_does_not_do(isolated, tmp_path):
    with pytest.raises(belljar.RefusedError, match="files"):
        isolated.run("1", mounts={"/data": tmp_path})
    with pytest.raises(belljar.ServerError, match="snapshots"):
        isolated.snapshots()
    with pytest.raises(belljar.ServerError, match="locked down already"):
        isolated.lockdown()


def test_an_interpreter_is_needed(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(belljar.ProcessError) as caught:
        belljar.Runtime(isolation="process")
    assert caught.value.code == "process.start"
