"""E2B sandboxes on servers that share a store, with E2B's own SDK."""

import re
import subprocess
import threading
import time

import httpx
import pytest
from conftest import COMMAND
from e2b import (
    NotFoundException,
    SandboxException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)
from e2b_code_interpreter import Sandbox
from nodes_support import LEASE, nodes, store  # noqa: F401


def at(nodes, number, key=None):
    url = nodes.servers[number].url
    return {"api_url": url, "sandbox_url": url, "api_key": key or nodes.key}


def other(nodes, sandbox, number):
    """The same sandbox by another server."""
    return Sandbox.connect(sandbox.sandbox_id, **at(nodes, number))


def test_a_sandbox_is_used_on_every_server(nodes):
    a = Sandbox.create(timeout=120, metadata={"who": "me"}, envs={"MODE": "x"}, **at(nodes, 0))
    b, c = other(nodes, a, 1), other(nodes, a, 2)
    assert a.run_code("n = 1; n").text == "1"
    assert b.run_code("import os\nn += 1; (n, os.environ['MODE'])").text == "(2, 'x')"
    b.run_code("os.environ['MODE'] = 'y'")
    done = c.run_code("open('f.txt', 'w').write('from c'); (n, os.environ['MODE'])")
    assert done.text == "(2, 'y')" and not done.logs.stderr, "the environment was set once"
    assert done.execution_count == 4
    assert a.files.read("f.txt") == "from c"
    a.files.write("d/g.txt", "from a")
    assert [entry.name for entry in b.files.list("d")] == ["g.txt"]
    assert c.commands.run("cat d/g.txt").stdout.strip() == "from a"
    c.commands.run("python3 -c \"open('h.txt', 'w').write('from a command')\"")
    assert b.run_code("print(open('h.txt').read())").logs.stdout == ["from a command\n"]
    url = a.download_url("f.txt", use_signature_expiration=60)
    signed = url.removeprefix(nodes.servers[0].url)
    # Nothing but the signature says for which sandbox it is.
    for server in nodes.servers:
        assert httpx.get(server.url + signed).content == b"from c"
        wrong = signed.replace("signature=v1_", "signature=v1_x")
        assert httpx.get(server.url + wrong).status_code == 401
    assert c.get_info().metadata == {"who": "me"}
    b.set_timeout(300)
    ends = [one.get_info().end_at for one in (a, b, c)]
    assert ends[0] == ends[1] == ends[2]
    listed = Sandbox.list(query=SandboxQuery(metadata={"who": "me"}), **at(nodes, 2)).next_items()
    assert [one.sandbox_id for one in listed] == [a.sandbox_id]
    assert c.kill() is True
    for number in range(3):
        with pytest.raises(SandboxNotFoundException):
            Sandbox.get_info(a.sandbox_id, **at(nodes, number))
    for one in (a, b, c):
        assert one.kill() is False and one.is_running() is False
        with pytest.raises(TimeoutException):
            one.run_code("1")
        with pytest.raises(TimeoutException):
            one.files.read("f.txt")
    assert httpx.get(nodes.servers[1].url + signed).status_code == 401


def test_contexts_are_everywhere(nodes):
    a = Sandbox.create(timeout=120, **at(nodes, 0))
    b, c = other(nodes, a, 1), other(nodes, a, 2)
    context = a.create_code_context()
    b.run_code("x = 'default'; open('1.txt', 'w').write('1')")
    assert c.run_code("x = 'other'; open('1.txt').read()", context=context).text == "1"
    a.run_code("open('2.txt', 'w').write('2')", context=context)
    assert b.run_code("(x, open('2.txt').read())").text == "('default', '2')"
    ids = {one.id for one in a.list_code_contexts()}
    assert ids == {one.id for one in c.list_code_contexts()} and len(ids) == 2
    b.restart_code_context(context)
    done = c.run_code("x", context=context)
    assert done.error.name == "NameError"
    files = "import os; sorted(os.listdir())"
    assert a.run_code(files, context=context).text == "['1.txt', '2.txt']"
    c.remove_code_context(context)
    assert [one.id for one in a.list_code_contexts()] == list(ids - {context.id})
    assert b.run_code("x").text == "default"
    assert sorted(entry.name for entry in a.files.list(".")) == ["1.txt", "2.txt"]
    # Its last one goes, and with a new one the files stay.
    a.remove_code_context(b.list_code_contexts()[0].id)
    assert c.run_code(files).text == "['1.txt', '2.txt']"
    a.kill()


def test_pausing_and_copies_are_everywhere(nodes):
    a = Sandbox.create(timeout=120, **at(nodes, 0))
    a.run_code("x = 7; open('f', 'w').write('f')")
    assert Sandbox.pause(a.sandbox_id, **at(nodes, 1))
    assert Sandbox.get_info(a.sandbox_id, **at(nodes, 2)).state == SandboxState.PAUSED
    with pytest.raises(TimeoutException):
        a.run_code("x")
    c = other(nodes, a, 2)
    assert c.run_code("x").text == "7" and a.run_code("x").text == "7"
    [fork] = Sandbox.fork(a.sandbox_id, **at(nodes, 1))
    fork = Sandbox.connect(fork.sandbox_id, **at(nodes, 2))
    assert fork.run_code("x += 1; x").text == "8" and a.run_code("x").text == "7"
    name = f"snap-{time.monotonic_ns()}"
    snapshot = Sandbox.create_snapshot(a.sandbox_id, name=name, **at(nodes, 1))
    a.run_code("x = 9")
    again = Sandbox.create(name, timeout=60, envs={"NEW": "1"}, **at(nodes, 2))
    shown = other(nodes, again, 0).run_code("import os; (x, os.environ['NEW'], open('f').read())")
    assert shown.text == "(7, '1', 'f')"
    assert Sandbox.delete_snapshot(snapshot.snapshot_id, **at(nodes, 0)) is True
    with pytest.raises(SandboxException, match="404"):
        Sandbox.create(name, **at(nodes, 1))
    for one in (a, fork, again):
        assert one.kill() is True


def test_time_is_over_everywhere(nodes):
    a = Sandbox.create(timeout=2, **at(nodes, 0))
    b = Sandbox.connect(a.sandbox_id, timeout=2, **at(nodes, 1))
    Sandbox.set_timeout(a.sandbox_id, 60, **at(nodes, 2))
    time.sleep(3)
    assert a.run_code("1").text == "1" and b.run_code("2").text == "2", "it was given more time"
    b.set_timeout(1)
    time.sleep(2)
    for number in range(3):
        with pytest.raises(SandboxNotFoundException):
            Sandbox.get_info(a.sandbox_id, **at(nodes, number))


def run_behind(sandbox, code):
    """Starts code in the background and waits for output; its result is added to the list."""
    came, begun = [], threading.Event()

    def run():
        try:
            came.append(sandbox.run_code(code, on_stdout=lambda _: begun.set(), timeout=60))
        except Exception as error:  # noqa: BLE001
            came.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(30), came
    return thread, came


def test_what_is_lost_with_a_server_is_told(nodes):
    a = Sandbox.create(timeout=120, **at(nodes, 0))
    b = other(nodes, a, 1)
    a.run_code("log = ['kept']; open('f', 'w').write('kept')")
    # Readers wait until that is written.
    assert b.files.read("f") == "kept"
    code = "log.append('lost'); open('f', 'w').write('lost')\nprint('on', flush=True)\n"
    thread, came = run_behind(a, code + "import time\ntime.sleep(40)")
    nodes.servers[0].process.kill()
    begun = time.monotonic()
    done = b.run_code("(log, open('f').read())")
    assert time.monotonic() - begun < 6 * LEASE
    thread.join()
    assert isinstance(came[0], Exception)
    assert done.text == "(['kept'], 'kept')"
    assert re.search(r"run 2 was lost: node n\d+ went away", "".join(done.logs.stderr)), done.logs
    assert not other(nodes, a, 2).run_code("1").logs.stderr
    assert b.kill() is True


def test_executions_wait_for_each_other_and_end_with_their_sandbox(nodes):
    a = Sandbox.create(timeout=120, **at(nodes, 0))
    b = other(nodes, a, 1)
    wait = "print('on', flush=True)\nimport time; time.sleep(2); n = 1; n"
    thread, came = run_behind(a, wait)
    assert b.run_code("n += 1; n").text == "2"
    thread.join()
    assert came[0].text == "1"
    # More time is given while code runs elsewhere, and it ends with the sandbox.
    thread, came = run_behind(a, "print('on', flush=True)\nwhile True: pass")
    b.set_timeout(300)
    begun = time.monotonic()
    assert b.kill() is True
    thread.join()
    assert time.monotonic() - begun < 4 * LEASE
    assert isinstance(came[0], Exception), came


def test_limits_and_owners_hold_on_every_server(nodes):
    keys = {}
    for name, *limits in (("bob",), ("carol", "--sessions", "2")):
        made = subprocess.run(
            [COMMAND, "key", name, "--keys", nodes.keys, *limits],
            capture_output=True,
            text=True,
            check=True,
        )
        keys[name] = made.stdout.strip()
    nodes.start()
    nodes.start()
    carol, bob = keys["carol"], keys["bob"]
    a = Sandbox.create(timeout=120, **at(nodes, -1, carol))
    for number in (-1, -2):
        for call in (Sandbox.get_info, Sandbox.connect, Sandbox.pause):
            with pytest.raises(NotFoundException):
                call(a.sandbox_id, **at(nodes, number, bob))
        assert Sandbox.kill(a.sandbox_id, **at(nodes, number, bob)) is False
        assert Sandbox.list(**at(nodes, number, bob)).next_items() == []
    b = Sandbox.create(timeout=120, **at(nodes, -2, carol))
    for number in (-1, -2):
        with pytest.raises(Exception, match="limit is reached: 2 sessions"):
            Sandbox.create(timeout=120, retries=0, **at(nodes, number, carol))
    assert Sandbox.kill(a.sandbox_id, **at(nodes, -2, carol))
    assert Sandbox.kill(b.sandbox_id, **at(nodes, -1, carol))
    assert Sandbox.create(timeout=120, **at(nodes, -1, carol)).kill()
