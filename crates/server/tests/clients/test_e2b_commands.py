"""Commands in the background and directories that are watched, with E2B's own SDKs."""

import asyncio
import time

import pytest
from e2b import (
    CommandExitException,
    FileNotFoundException,
    InvalidArgumentException,
    NotFoundException,
    RateLimitException,
    SandboxException,
)
from e2b_code_interpreter import AsyncSandbox

from e2b_support import environment, sandbox  # noqa: F401

FOREVER = "python3 -c 'import time; print(1, flush=True)\nwhile True: time.sleep(0.05)'"


def test_a_background_command_is_listed_and_killed(sandbox):
    handle = sandbox.commands.run(FOREVER, background=True, envs={"A": "b"}, timeout=60)
    (found,) = sandbox.commands.list()
    assert (found.pid, found.envs, found.cmd) == (handle.pid, {"A": "b"}, "/bin/bash")
    assert found.args[-1] == FOREVER
    assert next(iter(handle))[0].startswith("1")
    assert sandbox.commands.kill(handle.pid) is True
    with pytest.raises(CommandExitException) as ended:
        handle.wait()
    assert (ended.value.exit_code, ended.value.error) == (-1, "signal: killed")
    assert ended.value.stdout.startswith("1")
    assert sandbox.commands.list() == []
    assert sandbox.commands.kill(handle.pid) is False
    assert handle.kill() is False


def test_a_background_command_holds_up_nothing(sandbox):
    sandbox.run_code("x = 1")
    handle = sandbox.commands.run(FOREVER, background=True)
    started = time.monotonic()
    assert sandbox.run_code("x + 1").text == "2"
    sandbox.files.write("f", "1")
    assert sandbox.commands.run("cat f").stdout.strip() == "1"
    assert time.monotonic() - started < 8
    assert [one.pid for one in sandbox.commands.list()] == [handle.pid]
    assert handle.kill() is True


def test_a_command_is_connected_to(sandbox):
    code = "import time\nfor n in range(40): print(n, flush=True); time.sleep(0.05)"
    handle = sandbox.commands.run(f'python3 -c "{code}"', background=True)
    first = next(iter(handle))[0]
    handle.disconnect()
    assert first.startswith("0")
    again = sandbox.commands.connect(handle.pid)
    assert again.pid == handle.pid
    done = again.wait()
    assert (done.exit_code, done.stdout.split()[-1]) == (0, "39")
    with pytest.raises(NotFoundException):
        sandbox.commands.connect(handle.pid)


def test_a_command_that_is_out_of_time_is_killed(sandbox):
    sandbox.commands.run(FOREVER, background=True, timeout=1)
    deadline = time.monotonic() + 10
    while sandbox.commands.list():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_files_of_both_are_kept(sandbox):
    sandbox.files.write("dir/gone", "g")
    sandbox.files.write("kept", "k")
    code = (
        "import os, pathlib, time\nwhile not pathlib.Path('made').exists():\n"
        "    pathlib.Path('made').write_text('m'); os.remove('dir/gone'); time.sleep(1)\n"
        "pathlib.Path('new').mkdir(); pathlib.Path('new/large').write_bytes(b'l' * 3_000_000)"
    )
    handle = sandbox.commands.run(f'python3 -c "{code}"', background=True)
    time.sleep(0.3)
    sandbox.run_code("open('other', 'w').write('o'); open('/tmp/t', 'w').write('t'); None")
    assert handle.wait().exit_code == 0
    names = sorted(one.path.removeprefix("/home/user/") for one in sandbox.files.list("", depth=9))
    assert names == ["dir", "kept", "made", "new", "new/large", "other"]
    assert sandbox.run_code("len(open('new/large').read())").text == "3000000"
    assert sandbox.run_code("open('/tmp/t').read(), open('kept').read()").text == "('t', 'k')"


def test_a_command_leaves_temporary_files(sandbox):
    sandbox.commands.run("python3 -c \"open('/tmp/t', 'w').write('t')\"")
    assert sandbox.run_code("open('/tmp/t').read()").text == "t"


def test_commands_are_bounded(sandbox):
    handles = [sandbox.commands.run(FOREVER, background=True) for _ in range(16)]
    with pytest.raises(RateLimitException, match="at most 16 commands"):
        sandbox.commands.run("echo 1")
    with pytest.raises(SandboxException, match="running code"):
        sandbox.pause()
    assert all(handle.kill() for handle in handles)


def test_input_of_a_command_is_named_as_missing(sandbox):
    handle = sandbox.commands.run(FOREVER, background=True, stdin=True)
    with pytest.raises(SandboxException, match="(?i)unimplemented.*no standard input"):
        sandbox.commands.send_stdin(handle.pid, "x")
    with pytest.raises(NotFoundException):
        sandbox.commands.send_stdin(99, "x")
    handle.kill()


# Directories that are watched.


def seen(events):
    return [(event.name, event.type.value) for event in events]


def test_a_directory_is_watched_by_asking(sandbox):
    files = sandbox.files
    files.write("d/a", "1")
    with files_watched(sandbox, "d") as watched:
        assert watched.get_new_events() == []
        files.write("d/b", "2")
        files.write("d/deep/c", "3")
        files.write("elsewhere", "4")
        created = [("b", "create"), ("b", "write"), ("deep", "create")]
        assert seen(watched.get_new_events()) == created
        sandbox.run_code("open('d/a', 'a').write('more'); None")
        assert seen(watched.get_new_events()) == [("a", "write")]
        files.rename("d/b", "d/moved")
        sandbox.commands.run("python3 -c \"import os; os.remove('d/a')\"")
        assert set(seen(watched.get_new_events())) == {
            *(("a", "remove"), ("b", "rename"), ("moved", "create"))
        }
        assert watched.get_new_events() == []
    with pytest.raises(SandboxException, match="already stopped"):
        watched.get_new_events()


class files_watched:
    def __init__(self, sandbox, path, **how):
        self.handle = sandbox.files.watch_dir(path, **how)

    def __enter__(self):
        return self.handle

    def __exit__(self, *_):
        self.handle.stop()


def test_events_of_a_tree(sandbox):
    sandbox.files.make_dir("d/e")
    with files_watched(sandbox, "d", recursive=True) as watched:
        sandbox.files.write("d/e/f", "123")
        assert seen(watched.get_new_events()) == [("e/f", "create"), ("e/f", "write")]


def test_what_cannot_be_watched(sandbox):
    sandbox.files.write("f", "1")
    with pytest.raises(FileNotFoundException):
        sandbox.files.watch_dir("none")
    with pytest.raises(InvalidArgumentException, match="not a directory"):
        sandbox.files.watch_dir("f")
    handles = [sandbox.files.watch_dir("") for _ in range(8)]
    with pytest.raises(RateLimitException, match="at most 8"):
        sandbox.files.watch_dir("")
    handles[0].stop()
    sandbox.files.watch_dir("")
    with pytest.raises(NotFoundException, match="watcher"):
        handles[0].stop()


def test_a_directory_is_watched_as_a_stream():
    async def main():
        sandbox = await AsyncSandbox.create()
        events = []
        handle = await sandbox.files.watch_dir("/home/user", on_event=events.append)
        await sandbox.files.write("a", "1")
        await sandbox.run_code("open('b', 'w').write('2'); None")
        for _ in range(100):
            if len(events) >= 4:
                break
            await asyncio.sleep(0.05)
        assert seen(events) == [("a", "create"), ("a", "write"), ("b", "create"), ("b", "write")]
        await handle.stop()
        await sandbox.files.write("c", "3")
        await asyncio.sleep(0.3)
        assert len(events) == 4
        await sandbox.kill()

    asyncio.run(main())
