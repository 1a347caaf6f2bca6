"""E2B's face, with E2B's own SDK for Python, unmodified: what its published tests ask of an interpreter."""

import asyncio
import base64
import datetime
import io
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest
from e2b import (
    AuthenticationException,
    CommandExitException,
    FileNotFoundException,
    FileType,
    InvalidArgumentException,
    NotFoundException,
    SandboxException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)
from e2b_code_interpreter import AsyncSandbox, Sandbox
from smolagents import FinalAnswerTool, tool
from smolagents.monitoring import AgentLogger
from smolagents.remote_executors import E2BExecutor
from smolagents.utils import AgentError

JAVASCRIPT = Path(__file__).parent / "js" / "e2b" / "node_modules"
PNG = base64.b64encode(b"\x89PNG").decode()[:4]


@pytest.fixture(autouse=True)
def environment(server, monkeypatch):
    """The variables with which a client is pointed at belljar."""
    monkeypatch.setenv("E2B_API_URL", server.url)
    monkeypatch.setenv("E2B_SANDBOX_URL", server.url)
    monkeypatch.setenv("E2B_API_KEY", server.key)


@pytest.fixture
def sandbox(environment):
    made = Sandbox.create(timeout=120)
    yield made
    made.kill()


def test_basic(sandbox):
    execution = sandbox.run_code("x =1; x")
    assert execution.text == "1"
    assert execution.error is None


def test_statefulness(sandbox):
    sandbox.run_code("x = 1")
    assert sandbox.run_code("x+=1; x").text == "2"


def test_stdout_and_stderr(sandbox):
    execution = sandbox.run_code("import sys\nprint('Hello')\nprint('no', file=sys.stderr)")
    assert "".join(execution.logs.stdout) == "Hello\n"
    assert "".join(execution.logs.stderr) == "no\n"


def test_execution_count(sandbox):
    sandbox.run_code("!pwd")
    execution = sandbox.run_code("!pwd")
    assert execution.execution_count == 2
    assert "".join(execution.logs.stdout).strip() == "/home/user"


def test_error(sandbox):
    execution = sandbox.run_code("def f():\n    return 1 / 0\nprint('before')\nf()")
    assert execution.error.name == "ZeroDivisionError"
    assert execution.error.value == "division by zero"
    assert "line 2, in f" in execution.error.traceback
    assert execution.logs.stdout == ["before\n"]
    assert execution.text is None


def test_syntax_error(sandbox):
    assert sandbox.run_code("x = (").error.name == "SyntaxError"


def test_no_code_is_an_execution(sandbox):
    execution = sandbox.run_code("")
    assert execution.error is None
    assert execution.execution_count == 1


def test_default_working_directory(sandbox):
    assert sandbox.run_code("import os; os.getcwd()").text == "/home/user"


def test_result_formats(sandbox):
    execution = sandbox.run_code(
        "from IPython.display import HTML, Markdown, Latex, JSON, SVG, Javascript, display\n"
        "for one in (HTML('<b>1</b>'), Markdown('# a'), Latex('$x$'), JSON({'a': 1}),\n"
        "            SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>'), Javascript('f()')):\n"
        "    display(one)\n'the end'"
    )
    html, markdown, latex, json, svg, javascript, last = execution.results
    assert html.html == "<b>1</b>"
    assert markdown.markdown == "# a"
    assert latex.latex == "$x$"
    assert json.json == {"a": 1}
    assert svg.svg.startswith("<svg")
    assert javascript.javascript == "f()"
    assert [one.is_main_result for one in execution.results] == [False] * 6 + [True]
    assert execution.text == last.text == "the end"


def test_custom_repr_object(sandbox):
    code = "display({'text/plain': 'p', 'text/html': '<i>', 'application/x.mine+json': {'a': 1}}, raw=True)"
    (result,) = sandbox.run_code(code).results
    assert set(result.formats()) == {"text", "html", "application/x.mine+json"}
    assert result.extra == {"application/x.mine+json": {"a": 1}}


def test_display_data(sandbox):
    (image,) = sandbox.run_code(
        "import matplotlib.pyplot as plt\nimport numpy as np\n"
        "x = np.linspace(0, 20, 100)\nplt.plot(x, np.sin(x))\nplt.show()"
    ).results
    assert image.png.startswith(PNG)
    assert image.text.startswith("<Figure size")
    assert image.is_main_result is False
    assert "chart" in image.formats()


def test_streaming_result(sandbox):
    results = []
    sandbox.run_code(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n'the value'",
        on_result=results.append,
    )
    assert [bool(one.png) for one in results] == [True, False]
    assert results[1].is_main_result and results[1].text == "the value"


def test_streaming_output(sandbox):
    seen = []
    started = time.monotonic()
    sandbox.run_code(
        "import time\nfor n in range(3):\n    print(n)\n    time.sleep(0.3)",
        on_stdout=lambda message: seen.append((message.line, time.monotonic() - started)),
    )
    assert [line for line, _ in seen] == ["0\n", "1\n", "2\n"]
    assert seen[0][1] < seen[2][1] - 0.4


def test_data_of_a_frame(sandbox):
    (result,) = sandbox.run_code(
        "import pandas as pd\n"
        "pd.DataFrame({'a': [1, 2], 'b': ['x', 'y'], 'c': pd.to_datetime(['2024-01-01', '2024-01-02'])})"
    ).results
    assert result.data["a"] == [1, 2]
    assert result.data["b"] == ["x", "y"]
    assert result.data["c"][0].startswith("2024-01-01T00:00:00")
    assert "<table" in result.html


def test_json_of_containers(sandbox):
    assert sandbox.run_code("{'a': [1, None]}").results[0].json == {"a": [1, None]}
    assert sandbox.run_code("[1, 2]").results[0].json == [1, 2]


CHARTS = [
    ("plt.plot([1, 2], [3, 4], label='l'); plt.xlabel('t (s)'); plt.title('T')", "line"),
    ("plt.scatter([1, 2], [3, 4])", "scatter"),
    ("plt.bar(['a', 'b'], [1, 2])", "bar"),
    ("plt.pie([1, 3], labels=['a', 'b'])", "pie"),
    ("plt.boxplot([[1, 2, 3, 4]])", "box_and_whisker"),
    ("f, (a, b) = plt.subplots(1, 2); a.plot([1]); b.bar(['x'], [1])", "superchart"),
]


@pytest.mark.parametrize(("code", "kind"), CHARTS)
def test_charts(sandbox, code, kind):
    execution = sandbox.run_code(f"import matplotlib.pyplot as plt\n{code}\nplt.show()")
    chart = execution.results[0].chart
    assert chart.type.value == kind
    assert len(chart.elements) > 0


def test_environment_of_a_sandbox():
    with Sandbox.create(envs={"FOO": "bar"}) as sandbox:
        read = "import os; print(os.getenv('FOO'), os.getenv('E2B_SANDBOX'))"
        for context in (None, None, sandbox.create_code_context()):
            execution = sandbox.run_code(read, context=context)
            assert "".join(execution.logs.stdout) == "bar true\n"


def test_environment_of_one_execution():
    with Sandbox.create(envs={"FOO": "bar"}) as sandbox:
        read = "import os; os.getenv('FOO')"
        assert sandbox.run_code(read, envs={"FOO": "baz", "X": "1"}).text == "baz"
        assert sandbox.run_code(read).text == "bar"
        assert sandbox.run_code("os.getenv('X')").text in (None, "None")


def test_contexts(sandbox):
    (default,) = sandbox.list_code_contexts()
    assert (default.language, default.cwd) == ("python", "/home/user")
    context = sandbox.create_code_context(cwd="/home/user/data", language="python")
    assert context.cwd == "/home/user/data"
    assert {one.id for one in sandbox.list_code_contexts()} == {default.id, context.id}
    sandbox.run_code("x = 1; open('shared.txt', 'w').write('s'); None")
    assert sandbox.run_code("x", context=context).error.name == "NameError"
    assert sandbox.run_code("import os; os.getcwd()", context=context).text == "/home/user/data"
    sandbox.run_code("x = 2; open('/home/user/shared.txt', 'a').write('t'); None", context=context)
    assert sandbox.run_code("x, open('shared.txt').read()").text == "(1, 'st')"
    sandbox.remove_code_context(context)
    assert [one.id for one in sandbox.list_code_contexts()] == [default.id]
    assert sandbox.run_code("x, open('shared.txt').read()").text == "(1, 'st')"
    with pytest.raises(NotFoundException, match=f"Context {context.id} not found"):
        sandbox.run_code("1", context=context)
    with pytest.raises(NotFoundException):
        sandbox.remove_code_context(context)
    with pytest.raises(NotFoundException):
        sandbox.restart_code_context("x")


def test_restart_context(sandbox):
    context = sandbox.create_code_context()
    sandbox.run_code("x = 1; open('kept', 'w').write('k'); None", context=context)
    sandbox.restart_code_context(context)
    assert sandbox.run_code("x", context=context).error.name == "NameError"
    execution = sandbox.run_code("open('kept').read()", context=context)
    assert (execution.text, execution.execution_count) == ("k", 2)


def test_the_last_context_is_replaced(sandbox):
    (default,) = sandbox.list_code_contexts()
    sandbox.run_code("x = 1; open('kept', 'w').write('k'); None")
    sandbox.remove_code_context(default)
    assert sandbox.run_code("open('kept').read()").text == "k"
    assert sandbox.run_code("x").error.name == "NameError"


def test_other_languages_are_refused(sandbox):
    with pytest.raises(SandboxException, match="only Python"):
        sandbox.run_code("console.log(1)", language="js")
    assert sandbox.run_code("1", language="python").text == "1"
    with pytest.raises(SandboxException, match="only Python"):
        sandbox.create_code_context(language="r")


def test_interrupt_on_timeout_keeps_the_state(sandbox):
    sandbox.run_code("x = 1")
    with pytest.raises(TimeoutException):
        sandbox.run_code("x = 2\nimport time\nwhile True: time.sleep(0.1)", timeout=1)
    started = time.monotonic()
    assert sandbox.run_code("x").text == "2"
    assert time.monotonic() - started < 3


def test_executions_of_one_sandbox_wait_for_each_other(sandbox):
    slow = threading.Thread(target=lambda: sandbox.run_code("import time; time.sleep(1); x = 5"))
    slow.start()
    time.sleep(0.3)
    assert sandbox.run_code("x").text == "5"
    slow.join()


def test_kill_while_it_runs(sandbox):
    threading.Timer(1, sandbox.kill).start()
    with pytest.raises(TimeoutException, match="killed while"):
        sandbox.run_code("import time\nprint(1)\ntime.sleep(20)")
    assert sandbox.is_running() is False
    with pytest.raises(TimeoutException):
        sandbox.run_code("1")


def test_long_output_and_unicode(sandbox):
    execution = sandbox.run_code("print('ž€😀' * 50_000); '😀'")
    assert "".join(execution.logs.stdout) == "ž€😀" * 50_000 + "\n"
    assert execution.text == "😀"


def test_exit_and_crash_cost_the_run(sandbox):
    sandbox.run_code("x = 1")
    assert sandbox.run_code("import os; os._exit(3)").error is not None
    assert sandbox.run_code("x").text == "1"
    assert sandbox.run_code("raise SystemExit(2)").error.name == "SystemExit"


# Sandboxes.


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


# Files.


def test_files(sandbox):
    files = sandbox.files
    info = files.write("a.txt", "Ada")
    assert (info.name, info.path) == ("a.txt", "/home/user/a.txt")
    assert files.read("/home/user/a.txt") == "Ada"
    assert sandbox.run_code("open('a.txt').read()").text == "Ada"
    sandbox.run_code("open('b.bin', 'wb').write(bytes(range(256))); None")
    assert files.read("b.bin", format="bytes") == bytes(range(256))
    assert b"".join(files.read("b.bin", format="stream")) == bytes(range(256))
    assert files.exists("a.txt") and not files.exists("c.txt")
    with pytest.raises(FileNotFoundException, match="does not exist"):
        files.read("c.txt")
    with pytest.raises(FileNotFoundException):
        files.get_info("c.txt")
    files.write("a.txt", "")
    assert files.read("a.txt") == ""


def test_kinds_of_upload(sandbox):
    files = sandbox.files
    content = b"0123456789" * 300_000
    files.write("one/two/buffered", content)
    files.write("streamed", io.BytesIO(content))
    files.write("octets", content, use_octet_stream=True)
    files.write("packed", content, gzip=True)
    for name in ("one/two/buffered", "streamed", "octets", "packed"):
        assert files.read(name, format="bytes") == content, name
        assert files.read(name, format="bytes", gzip=True) == content, name
    written = files.write_files(
        [{"path": "m/ž 1", "data": "1"}, {"path": "/home/user/m/2", "data": b"2"}]
    )
    assert [one.path for one in written] == ["/home/user/m/ž 1", "/home/user/m/2"]
    assert files.read("m/ž 1") == "1"


def test_file_system(sandbox):
    files = sandbox.files
    assert files.make_dir("d/e") is True
    assert files.make_dir("d/e") is False
    files.write("d/e/f.txt", "12345")
    files.write("d/g", "1")
    assert [one.name for one in files.list("d")] == ["e", "g"]
    deep = files.list("/home/user", depth=3)
    assert [one.path for one in deep] == [
        f"/home/user/{path}" for path in ("d", "d/e", "d/e/f.txt", "d/g")
    ]
    info = files.get_info("d/e/f.txt")
    assert (info.name, info.size, info.type, info.permissions) == (
        "f.txt",
        5,
        FileType.FILE,
        "-rw-r--r--",
    )
    assert (
        abs(
            (
                info.modified_time.replace(tzinfo=datetime.timezone.utc)
                - datetime.datetime.now(datetime.timezone.utc)
            ).total_seconds()
        )
        < 60
    )
    assert files.get_info("d").type == FileType.DIR
    moved = files.rename("d/e/f.txt", "new/place.txt")
    assert moved.path == "/home/user/new/place.txt"
    with pytest.raises(FileNotFoundException):
        files.rename("d/e/f.txt", "x")
    files.remove("d")
    assert [one.name for one in files.list(".")] == ["new"]
    with pytest.raises(FileNotFoundException):
        files.remove("d")
    with pytest.raises(FileNotFoundException):
        files.list("d")
    sandbox.run_code("import os; os.symlink('new', 'link')")
    assert files.get_info("link").type == FileType.SYMLINK


def test_paths_that_lead_out(sandbox):
    files = sandbox.files
    for path in ("/etc/passwd", "../../../etc/passwd", "/home/user/../../etc/passwd"):
        with pytest.raises(FileNotFoundException):
            files.read(path)
        with pytest.raises(InvalidArgumentException):
            files.write(path, "x")
        with pytest.raises(FileNotFoundException):
            files.list(path)
    sandbox.run_code(
        "import os; os.symlink('../../../../etc/passwd', 'out'); os.symlink('..', 'up')"
    )
    for path in ("out", "up/etc/passwd"):
        with pytest.raises(SandboxException):
            files.read(path)
        with pytest.raises(SandboxException):
            files.write(path, "x")


def test_signed_urls(sandbox):
    sandbox.files.write("a b.txt", "signed")
    url = sandbox.download_url("a b.txt", use_signature_expiration=60)
    response = httpx.get(url)
    assert response.content == b"signed"
    assert response.headers["content-type"] == "application/octet-stream"
    assert httpx.get(sandbox.download_url("a b.txt")).content == b"signed"
    assert (
        httpx.get(sandbox.download_url("a b.txt", use_signature_expiration=-10)).status_code == 401
    )
    assert httpx.get(url.replace("a%20b", "other")).status_code == 401
    assert httpx.get(url.replace("signature=v1_", "signature=v1_x")).status_code == 401
    upload = sandbox.upload_url("up.txt", use_signature_expiration=60)
    assert httpx.post(upload, files={"file": ("up.txt", b"up")}).status_code == 200
    assert httpx.get(upload).status_code == 401
    assert sandbox.files.read("up.txt") == "up"


# Commands.


def test_commands_that_need_no_process(sandbox):
    run = sandbox.commands.run
    sandbox.files.write(
        "s.py", "import sys\nprint('hi', sys.argv[1:], __name__)\nopen('made', 'w').write('m')"
    )
    assert run("python3 s.py 1 2").stdout == "hi ['1', '2'] __main__\n"
    assert sandbox.files.read("made") == "m"
    assert (
        run("python3 -c 'import os; print(os.environ[\"A\"], os.getcwd())'", envs={"A": "b"}).stdout
        == "b /home/user\n"
    )
    assert run("echo hello").stdout == "hello\n"
    assert run("ls").stdout.split() == ["made", "s.py"]
    assert run("cat made").stdout.strip() == "m"
    assert run("pwd").stdout == "/home/user\n"
    with pytest.raises(CommandExitException) as failed:
        run("pip install surely-not-there")
    assert failed.value.exit_code == 1
    assert "No matching distribution" in failed.value.stderr + failed.value.stdout
    with pytest.raises(CommandExitException) as failed:
        run("python3 -c 'import sys; print(1); sys.exit(7)'")
    assert (failed.value.exit_code, failed.value.stdout) == (7, "1\n")
    with pytest.raises(CommandExitException) as failed:
        run("python3 -c '1/0'")
    assert "ZeroDivisionError" in failed.value.stderr
    sandbox.run_code("x = 1")
    assert sandbox.run_code("x").text == "1"


def test_other_commands_are_refused(sandbox):
    for command in ("npm install", "ls | wc", "sleep 1 &", "git clone x"):
        with pytest.raises(SandboxException, match="no processes in this sandbox"):
            sandbox.commands.run(command)
    assert sandbox.commands.list() == []
    assert sandbox.commands.kill(99) is False


# Asynchronous.


def test_async():
    async def main():
        sandbox = await AsyncSandbox.create()
        lines = []
        execution = await sandbox.run_code(
            "print('a')\nprint('b')\n3", on_stdout=lambda message: lines.append(message.line)
        )
        assert execution.text == "3"
        assert "".join(lines) == "a\nb\n"
        context = await sandbox.create_code_context(cwd="/home/user")
        await sandbox.run_code("x = 1", context=context)
        assert (await sandbox.run_code("x", context=context)).text == "1"
        assert len(await sandbox.list_code_contexts()) == 2
        await sandbox.restart_code_context(context)
        await sandbox.remove_code_context(context)
        await sandbox.files.write("f", "async")
        assert await sandbox.files.read("f") == "async"
        assert [one.name for one in await sandbox.files.list(".")] == ["f"]
        (fork,) = await sandbox.fork()
        assert await fork.files.read("f") == "async"
        assert await fork.kill()
        assert (await sandbox.commands.run("echo 1")).stdout == "1\n"
        with pytest.raises(TimeoutException):
            await sandbox.run_code("while True: pass", timeout=1)
        assert await sandbox.pause()
        await sandbox.connect()
        results = await asyncio.gather(*(sandbox.run_code(f"{n}") for n in range(5)))
        assert [one.text for one in results] == ["0", "1", "2", "3", "4"]
        assert await sandbox.kill()
        assert not await sandbox.is_running()

    asyncio.run(main())


def test_many_at_once():
    async def one(n):
        sandbox = await AsyncSandbox.create()
        assert (await sandbox.run_code(f"x = {n}; x * 2")).text == str(n * 2)
        await sandbox.kill()

    async def main():
        await asyncio.gather(*(one(n) for n in range(20)))

    asyncio.run(main())


# What is built on the SDK.


@tool
def double(x: int) -> int:
    """Doubles a number.

    Args:
        x: the number
    """
    return 2 * x


def test_smolagents(environment):
    """Its executor installs packages first, and fails for good if that does."""
    executor = E2BExecutor(additional_imports=["numpy", "pillow"], logger=AgentLogger())
    try:
        assert executor.installed_packages == ["numpy", "pillow"]
        executor.send_tools({"double": double, "final_answer": FinalAnswerTool()})
        executor.send_variables({"a": 20, "b": {"c": [1]}})
        step = executor("print(double(a))\nb['c'].append(double(1))\nb")
        assert (step.output, step.logs.strip(), step.is_final_answer) == (
            {"c": [1, 2]},
            "40",
            False,
        )
        step = executor("import numpy as np\nfinal_answer(int(np.arange(5).sum()) + double(a))")
        assert (step.output, step.is_final_answer) == (50, True)
        with pytest.raises(AgentError, match="ZeroDivisionError"):
            executor("1/0")
        image = executor("from PIL import Image\nImage.new('RGB', (2, 2))").output
        assert image.size == (2, 2)
    finally:
        executor.cleanup()


def test_by_the_name_of_the_host(server):
    """As LiteLLM does it: older paths, and a host of the domain."""
    headers = {"X-API-Key": server.key}
    made = httpx.post(
        f"{server.url}/sandboxes",
        headers=headers,
        json={"templateID": "code-interpreter-v1", "timeout": 60},
    )
    assert made.status_code == 201
    sandbox, token = made.json()["sandboxID"], made.json()["envdAccessToken"]
    answer = httpx.post(
        f"{server.url}/execute",
        headers={"Host": f"49999-{sandbox}.sandbox.example", "X-Access-Token": token},
        json={"code": "1 + 1"},
    )
    assert '"text":"2"' in answer.text
    alive = {"Host": f"49983-{sandbox}.sandbox.example"}
    assert httpx.get(f"{server.url}/health", headers=alive).status_code == 204
    closed = httpx.get(f"{server.url}/", headers={"Host": f"8080-{sandbox}.sandbox.example"})
    assert (closed.status_code, "port is not open" in closed.text) == (502, True)
    assert httpx.delete(f"{server.url}/sandboxes/{sandbox}", headers=headers).status_code == 204
    gone = httpx.get(f"{server.url}/health", headers=alive)
    assert (gone.status_code, gone.json()["message"]) == (502, "The sandbox was not found")


def test_a_token_is_enough_to_name_a_sandbox(server, sandbox):
    token = {"X-Access-Token": sandbox._envd_access_token}
    answer = httpx.post(f"{server.url}/execute", headers=token, json={"code": "40 + 2"})
    assert '"text":"42"' in answer.text
    answer = httpx.post(f"{server.url}/execute", headers={"X-Access-Token": ""}, json={"code": "1"})
    assert answer.status_code == 401


@pytest.mark.skipif(not JAVASCRIPT.exists(), reason="`npm ci` was not run in js/e2b")
def test_the_sdk_for_javascript():
    ran = subprocess.run(
        ["node", "--test", "--test-force-exit"],
        cwd=JAVASCRIPT.parent,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
