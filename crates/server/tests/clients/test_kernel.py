"""`belljar kernel` with what starts kernels: Jupyter, nbclient, papermill, AutoGen."""

import asyncio
import base64
import json
import os
import queue
import signal
import subprocess
import time
from pathlib import Path

import jupyter_kernel_test
import nbclient
import nbformat
import papermill
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager, start_new_kernel
from jupyter_kernel_client import JupyterKernelClient
from nbformat.v4 import new_code_cell, new_notebook

from conftest import COMMAND
from jupyter_support import TOKEN, jupyter_server


@pytest.fixture(scope="session", autouse=True)
def installed(tmp_path_factory):
    """The kernel, where every client of this process finds it."""
    prefix = tmp_path_factory.mktemp("prefix")
    # Baking it would take longer than some of these tests wait.
    subprocess.run([COMMAND, "setup", "--quiet", "--image", "data"], check=True)
    subprocess.run([COMMAND, "kernel", "install", "--prefix", str(prefix)], check=True)
    os.environ["JUPYTER_PATH"] = str(prefix / "share" / "jupyter")
    return prefix


@pytest.fixture
def started():
    manager, client = start_new_kernel(kernel_name="belljar")
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel()


@pytest.fixture
def client(started):
    return started[1]


def outputs(client, code, **asked):
    """What a cell tells, and its answer."""
    told = []
    reply = client.execute_interactive(code, timeout=60, output_hook=told.append, **asked)
    return [message for message in told if message["msg_type"] != "status"], reply["content"]


class TestOfJupyter(jupyter_kernel_test.KernelTests):
    """The tests that Jupyter has for kernels."""

    kernel_name = "belljar"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = [{"text": "zi", "matches": {"zip"}}, {"text": "import matplotlib.pyp"}]
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n", "%pwd"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples = ["import = 7q"]
    code_generate_error = "raise ValueError('no')"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
    ]
    code_display_data = [
        {
            "code": "from IPython.display import HTML, display; display(HTML('<b>1</b>'))",
            "mime": "text/html",
        },
        {
            "code": "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()",
            "mime": "image/png",
        },
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


class TestWelcome(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = "belljar"
    support_iopub_welcome = True


# The classes that these derive from are no tests.
del jupyter_kernel_test


def test_jupyter_lists_it(installed):
    spec = KernelSpecManager().get_all_specs()["belljar"]
    assert spec["spec"]["interrupt_mode"] == "message"
    assert Path(spec["spec"]["argv"][0]).is_absolute()
    assert spec["resource_dir"].startswith(str(installed))


def test_what_a_notebook_shows():
    cells = [
        "import pandas as pd\nimport matplotlib.pyplot as plt\nfrom IPython.display import display",
        "display(pd.DataFrame({'a': [1]}))\nplt.plot([1, 2])\nplt.show()\n6 * 7",
        "!pip install pandas\n%matplotlib inline\nfile = open('a.txt', 'w').write('kept')",
        "print(open('a.txt').read())",
    ]
    notebook = new_notebook(cells=[new_code_cell(code) for code in cells])
    nbclient.execute(notebook, kernel_name="belljar")
    nbformat.validate(notebook)
    table, figure, value = notebook.cells[1].outputs
    assert "<table" in table["data"]["text/html"]
    assert base64.b64decode(figure["data"]["image/png"]).startswith(b"\x89PNG")
    assert (value["output_type"], value["data"]["text/plain"]) == ("execute_result", "42")
    assert notebook.cells[1].execution_count == 2
    assert "already satisfied: pandas" in notebook.cells[2].outputs[0]["text"]
    assert notebook.cells[3].outputs[0]["text"] == "kept\n"


def test_an_error_ends_a_notebook():
    cells = [new_code_cell("def f():\n    1 / 0"), new_code_cell("f()"), new_code_cell("3")]
    notebook = new_notebook(cells=cells)
    with pytest.raises(nbclient.exceptions.CellExecutionError) as failed:
        nbclient.execute(notebook, kernel_name="belljar")
    assert failed.value.ename == "ZeroDivisionError"
    assert notebook.cells[1].outputs[0]["traceback"][:3] == [
        "-" * 75,
        "ZeroDivisionError                         Traceback (most recent call last)",
        "Cell In[2], line 1",
    ]


def test_papermill_passes_parameters(tmp_path):
    cell = new_code_cell("n = 1", metadata={"tags": ["parameters"]})
    notebook = new_notebook(cells=[cell, new_code_cell("print(n * 2)")])
    notebook.metadata["kernelspec"] = {"name": "belljar", "display_name": "b", "language": "python"}
    nbformat.write(notebook, tmp_path / "in.ipynb")
    papermill.execute_notebook(
        tmp_path / "in.ipynb", tmp_path / "out.ipynb", parameters={"n": 21}, progress_bar=False
    )
    done = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert done.cells[-1].outputs[0]["text"] == "42\n"


def test_autogen_executes():
    from autogen_core import CancellationToken
    from autogen_core.code_executor import CodeBlock
    from autogen_ext.code_executors.jupyter import JupyterCodeExecutor

    plot = "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()"

    async def execute():
        async with JupyterCodeExecutor(kernel_name="belljar", timeout=60) as executor:
            results = []
            for code in ["x = 20", "print(x + 1)", "x / 0", plot]:
                block = CodeBlock(code=code, language="python")
                results.append(await executor.execute_code_blocks([block], CancellationToken()))
            return results

    _, printed, failed, figure = asyncio.run(execute())
    assert (printed.exit_code, printed.output.strip()) == (0, "21")
    assert failed.exit_code == 1
    assert "ZeroDivisionError: division by zero" in failed.output
    assert Path(figure.output_files[0]).suffix == ".png"


def test_input_is_asked_for(client):
    def answer(message):
        assert message["content"] == {"prompt": "Who? ", "password": False}
        client.input("Ada")

    told, reply = outputs(
        client, "print('Hello', input('Who? '))", allow_stdin=True, stdin_hook=answer
    )
    assert reply["status"] == "ok"
    assert "".join(message["content"].get("text", "") for message in told) == "Hello Ada\n"
    _, reply = outputs(client, "input()", allow_stdin=False)
    assert (reply["status"], reply["ename"]) == ("error", "EOFError")


def test_an_interrupt_keeps_the_session(client):
    outputs(client, "x = 1")
    waiting = client.execute("while True: x += 1")
    while client.get_iopub_msg(timeout=10)["msg_type"] != "execute_input":
        pass
    time.sleep(0.3)
    client.control_channel.send(client.session.msg("interrupt_request"))
    assert client.get_control_msg(timeout=10)["content"] == {"status": "ok"}
    reply = client.get_shell_msg(timeout=10)
    assert reply["parent_header"]["msg_id"] == waiting
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    told, _ = outputs(client, "x > 1")
    assert told[-1]["content"]["data"]["text/plain"] == "True"


def test_what_follows_a_failure_is_not_run(client):
    first = client.execute("import time; time.sleep(0.5); 1 / 0")
    second = client.execute("print('never')")
    third = client.execute("1 / 0", stop_on_error=False)
    replies = [client.get_shell_msg(timeout=10) for _ in range(3)]
    statuses = {r["parent_header"]["msg_id"]: r["content"]["status"] for r in replies}
    assert statuses == {first: "error", second: "aborted", third: "aborted"}
    client.execute("1 / 0", stop_on_error=False)
    client.execute("2")
    statuses = [client.get_shell_msg(timeout=10)["content"]["status"] for _ in range(2)]
    assert statuses == ["error", "ok"]


def test_expressions_are_evaluated_after_the_code(client):
    asked = {"sum": "x + 1", "bad": "x.nothing", "worse": "1 +"}
    _, reply = outputs(client, "x = 1", user_expressions=asked)
    values = reply["user_expressions"]
    assert values["sum"]["data"] == {"text/plain": "2"}
    assert values["bad"]["ename"] == "AttributeError"
    assert values["worse"]["ename"] == "SyntaxError"


def test_displays_are_updated_and_cleared(client):
    code = """
from IPython.display import display, clear_output
handle = display('a', display_id='here')
handle.update('b')
clear_output(wait=True)
"""
    told, _ = outputs(client, code)
    kinds = [message["msg_type"] for message in told]
    assert kinds == ["execute_input", "display_data", "update_display_data", "clear_output"]
    transient = {"display_id": "here"}
    assert [message["content"]["transient"] for message in told[1:3]] == [transient] * 2
    assert told[3]["content"] == {"wait": True}


def test_silent_code_says_nothing_of_itself(client):
    told, reply = outputs(client, "y = 5; y", silent=True)
    assert (told, reply["status"]) == ([], "ok")
    _, reply = outputs(client, "", silent=True, user_expressions={"y": "y"})
    assert reply["user_expressions"]["y"]["data"]["text/plain"] == "5"


def test_a_lost_interpreter_is_told_of(client):
    outputs(client, "x = 1")
    told, reply = outputs(client, "import os; x = 2; os._exit(3)")
    assert reply["status"] == "error"
    assert any("as it was before this cell" in m["content"].get("text", "") for m in told)
    told, _ = outputs(client, "x")
    assert told[-1]["content"]["data"]["text/plain"] == "1"


def test_a_forged_message_is_not_heard(client):
    known = client.session.key
    client.session.key = b"another"
    client.execute("1")
    client.session.key = known
    with pytest.raises(queue.Empty):
        client.get_shell_msg(timeout=0.5)
    assert outputs(client, "2")[1]["execution_count"] == 1


def test_it_works_over_sockets_in_the_file_system(tmp_path):
    manager = KernelManager(kernel_name="belljar", transport="ipc", ip=str(tmp_path / "s"))
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=30)
    assert (tmp_path / f"s-{manager.shell_port}").stat().st_mode & 0o777 == 0o600
    assert outputs(client, "1")[1]["status"] == "ok"
    client.stop_channels()
    manager.shutdown_kernel()
    assert not list(tmp_path.glob("s-*"))


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    manager, client = start_new_kernel(kernel_name="belljar")
    outputs(client, "open('a', 'w').write('x' * 100_000)")
    client.execute("while True: pass")
    time.sleep(0.3)
    pid = manager.provisioner.pid
    client.stop_channels()
    manager.shutdown_kernel()
    assert not Path(f"/proc/{pid}").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_restart_forgets_everything(started):
    manager, client = started
    outputs(client, "x = 1")
    manager.restart_kernel()
    client.wait_for_ready(timeout=30)
    _, reply = outputs(client, "x")
    assert (reply["ename"], reply["execution_count"]) == ("NameError", 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_whoever_started_it(tmp_path, number):
    file = tmp_path / "connection.json"
    file.write_text(json.dumps({"key": "k"}))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    line = f"JPY_PARENT_PID=$$ TMPDIR={temporary} {COMMAND} kernel -f {file} & echo $!; wait"
    parent = subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    wait_until(lambda: "hb_port" in file.read_text())
    parent.send_signal(number)
    parent.wait(timeout=10)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert list(temporary.iterdir()) == []


def wait_until(holds):
    for _ in range(200):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it never holds")


def test_arguments_for_other_kernels_are_ignored():
    """`jupyter run` adds the file, and others options of IPython's kernel."""
    manager, client = start_new_kernel(
        kernel_name="belljar", extra_arguments=["--HistoryManager.enabled=False", "note.py"]
    )
    told, _ = outputs(client, "print(1)")
    assert [message["msg_type"] for message in told] == ["execute_input", "stream"]
    client.stop_channels()
    manager.shutdown_kernel()


def test_the_first_cell_after_a_restart_is_heard_on_sockets_that_were_kept(started):
    manager, client = started
    for _ in range(4):
        manager.restart_kernel()
        client.execute("print('heard')")
        kinds = []
        while "stream" not in kinds:
            kinds.append(client.get_iopub_msg(timeout=60)["msg_type"])


def test_cells_after_restarts_are_heard_by_a_client_that_keeps_its_web_socket(tmp_path):
    """jupyter-server's kernel, restarted over HTTP by jupyter-kernel-client."""
    restarts = 6
    heard = []
    with jupyter_server(tmp_path) as url:
        client = JupyterKernelClient(server_url=url, token=TOKEN)
        client.start(name="belljar", timeout=60)
        for number in range(restarts):
            client.restart(timeout=60)
            told = client.execute(f"print({number})", timeout=60)
            heard.append("".join(output.get("text", "") for output in told["outputs"]))
        client.stop(shutdown_kernel=True)
    assert heard == [f"{number}\n" for number in range(restarts)]
