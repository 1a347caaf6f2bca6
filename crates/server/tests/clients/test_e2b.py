"""E2B's face, with E2B's own SDK for Python, unmodified: what its tests ask of an interpreter."""

import asyncio
import base64
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest
from e2b import (
    NotFoundException,
    SandboxException,
    TimeoutException,
)
from e2b_code_interpreter import AsyncSandbox, Sandbox
from smolagents import FinalAnswerTool, tool
from smolagents.monitoring import AgentLogger
from smolagents.remote_executors import E2BExecutor
from smolagents.utils import AgentError

from e2b_support import environment, sandbox  # noqa: F401

JAVASCRIPT = Path(__file__).parent / "js" / "e2b" / "node_modules"
PNG = base64.b64encode(b"\x89PNG").decode()[:4]


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
