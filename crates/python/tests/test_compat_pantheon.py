"""The replacement of Pantheon's toolset: sessions, figures, files, errors."""

import asyncio
import pickle
import subprocess
import sys

import pytest
import pytest_asyncio

pytest.importorskip("pantheon.toolset", reason="pantheon-agents is not installed")
cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")

from pantheon.toolset import ToolSet  # noqa: E402

from belljar.compat import pantheon as compat  # noqa: E402
from belljar.compat.pantheon import (  # noqa: E402
    PythonInterpreterError,
    PythonInterpreterToolSet,
)

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def context():
    """The framework keeps the data of one call in a context that all later calls share."""
    from pantheon.toolset import ExecutionContext, set_current_context_variables

    def of(**variables):
        set_current_context_variables(ExecutionContext(variables))

    of()
    return of


@pytest_asyncio.fixture
async def tools(tmp_path):
    toolset = PythonInterpreterToolSet("python", workdir=str(tmp_path))
    yield toolset
    await toolset.cleanup()


async def test_what_a_model_sees(tools):
    assert isinstance(tools, ToolSet)
    offered = {name for name in tools.tool_functions if name != "list_tools"}
    assert offered == {"run_python_code", "manage_interpreters"}
    listed = (await tools.list_tools())["tools"]
    inputs = {tool["name"]: [i["name"] for i in tool["inputs"]] for tool in listed}
    assert inputs["run_python_code"] == ["code", "interpreter_id", "result_var_name"]
    assert inputs["manage_interpreters"] == ["operation", "interpreter_id"]


async def test_expressions_are_printed_as_text(tools):
    answer = await tools.run_python_code("'a'\nNone\n1 + 1\nx = 3")
    assert answer == {"success": True, "result": None, "stdout": "a\n2\n", "stderr": ""}


async def test_names_that_the_original_begins_with(tools):
    answer = await tools.run_python_code("print(os.sep, uuid.__name__, plt.__name__)")
    assert answer["stdout"] == "/ uuid matplotlib.pyplot\n"


async def test_an_empty_cell_returns_a_variable(tools):
    await tools.run_python_code("res = {'a': 1}")
    answer = await tools.run_python_code(code="", result_var_name="res")
    assert (answer["success"], answer["result"]) == (True, {"a": 1})


async def test_results_are_values_of_python(tools):
    answer = await tools.run_python_code("x = {1: (2, {3})}", result_var_name="x")
    assert answer["result"] == {1: (2, {3})}
    missing = await tools.run_python_code("y = 1", result_var_name="z")
    assert (missing["success"], missing["result"]) == (True, None)


async def test_an_exception_is_raised_and_its_effects_stay(tools):
    with pytest.raises(PythonInterpreterError) as raised:
        await tools.run_python_code("x = 1\nprint('so far')\n1 / 0")
    text = str(raised.value)
    assert text.startswith("ZeroDivisionError: division by zero\n")
    assert 'File "<string>", line 3' in text
    assert "so far" in text
    assert raised.value.run.outcome.stdout == "so far\n"
    assert (await tools.run_python_code("x"))["stdout"] == "1\n"


async def test_a_timeout_is_raised_and_the_state_stays(tmp_path):
    tools = PythonInterpreterToolSet("python", timeout=0.5)
    await tools.run_python_code("x = 1")
    with pytest.raises(PythonInterpreterError, match=r"timed out after 0\.5 seconds"):
        await tools.run_python_code("while True: pass")
    assert (await tools.run_python_code("x"))["stdout"] == "1\n"
    await tools.cleanup()


async def test_sessions_by_chat_then_client_then_one_for_all(tools, context):
    async def run(code, **variables):
        context(**variables)
        return (await tools.run_python_code(code))["stdout"]

    await run("who = 'chat'", chat_id="1", client_id="a")
    await run("who = 'client'", client_id="a")
    await run("who = 'default'")
    assert await run("who", chat_id="1", client_id="b") == "chat\n"
    assert await run("who", client_id="a") == "client\n"
    assert await run("who") == "default\n"
    assert len((await tools.list_interpreters())["interpreters"]) == 3


async def test_runs_of_one_session_that_are_asked_for_at_once(tools):
    await asyncio.gather(
        *(tools.run_python_code(f"n = [*globals().get('n', []), {n}]") for n in range(10))
    )
    assert (await tools.run_python_code("n"))["stdout"] == f"{list(range(10))}\n"
    assert len(tools.interpreters) == 1


async def test_interpreters_by_id(tools):
    first = (await tools.new_interpreter())["interpreter_id"]
    second = (await tools.manage_interpreters("create"))["interpreter_id"]
    await tools.run_code_in_interpreter("x = 1", first)
    await tools.run_python_code("x = 2", interpreter_id=second)
    assert (await tools.run_python_code("x", interpreter_id=first))["stdout"] == "1\n"
    assert (await tools.delete_interpreter(first))["success"]
    assert [i["id"] for i in (await tools.list_interpreters())["interpreters"]] == [second]


async def test_errors_of_the_tools(tools):
    not_found = {"success": False, "error": "Interpreter nobody not found"}
    assert await tools.run_python_code("1", interpreter_id="nobody") == not_found
    assert await tools.manage_interpreters("delete", "nobody") == not_found
    with pytest.raises(ValueError, match="Interpreter nobody not found"):
        await tools.run_code_in_interpreter("1", "nobody")
    assert await tools.manage_interpreters("delete") == {
        "success": False,
        "error": "interpreter_id is required for delete operation",
    }
    assert await tools.manage_interpreters("hug") == {
        "success": False,
        "error": "Unknown operation: hug",
    }


async def test_a_deleted_default_session_is_made_anew(tools):
    await tools.run_python_code("x = 1")
    [interpreter] = (await tools.list_interpreters())["interpreters"]
    await tools.delete_interpreter(interpreter["id"])
    with pytest.raises(PythonInterpreterError, match="NameError"):
        await tools.run_python_code("x")


async def test_every_figure_is_there(tools, tmp_path):
    answer = await tools.run_python_code(
        "for n in range(3):\n    plt.plot([n, 1])\n    plt.show()\nplt.show()"
    )
    assert answer["stdout"] == "No active figure to save.\n"
    assert len(answer["base64_uri"]) == 3
    assert len(set(answer["fig_storage_paths"])) == 3
    assert answer["fig_storage_path"] == answer["fig_storage_paths"][-1]
    assert all((tmp_path / path).is_file() for path in answer["fig_storage_paths"])
    again = await tools.run_python_code("1")
    assert "fig_storage_path" not in again


async def test_the_working_directory_is_shared(tools, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "in.csv").write_text("a,b\n1,2\n")
    (tmp_path / ".secret").write_text("not for the code")
    answer = await tools.run_python_code(
        "import pandas as pd\n"
        "os.mkdir('out')\n"
        "frame = pd.read_csv('data/in.csv')\n"
        "frame.to_csv('out/copy.csv', index=False)\n"
        "print(sorted(os.listdir('.')))"
    )
    assert answer["stdout"] == "['data', 'out']\n"
    assert (tmp_path / "out" / "copy.csv").read_text() == "a,b\n1,2\n"
    (tmp_path / "data" / "in.csv").write_text("a,b\n3,4\n")
    answer = await tools.run_python_code("print(open('data/in.csv').read())")
    assert "3,4" in answer["stdout"]


async def test_links_lead_nowhere(tools, tmp_path, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("secret")
    (tmp_path / "linked").symlink_to(outside)
    (tmp_path / "linked.txt").symlink_to(outside / "secret.txt")
    await tools.run_python_code(
        "os.mkdir('linked')\n"
        "open('linked/new.txt', 'w').write('x')\n"
        "open('linked.txt', 'w').write('x')\n"
        "os.symlink('linked.txt', 'mine.txt')\n"
    )
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"
    assert not (tmp_path / "mine.txt").exists()


async def test_a_file_that_the_next_run_removes(tools, tmp_path):
    first, second = await asyncio.gather(
        tools.run_python_code("open('gone.txt', 'w').close()\nplt.plot([1])\nplt.show()"),
        tools.run_python_code(
            "import shutil\nos.remove('gone.txt')\nshutil.rmtree('plots')\n"
            "open('there.txt', 'w').close()"
        ),
    )
    assert len(first["base64_uri"]) == 1
    assert second["success"]
    assert (tmp_path / "gone.txt").exists()
    assert (tmp_path / "there.txt").exists()


async def test_what_is_in_the_way_stays(tools, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / ".kept").touch()
    (tmp_path / "file").write_text("file")
    answer = await tools.run_python_code(
        "os.remove('file')\nos.mkdir('file')\n"
        "open('file/a', 'w').close()\nopen('folder', 'w').close()\nopen('b', 'w').close()"
    )
    assert answer["success"]
    assert (tmp_path / "file").read_text() == "file"
    assert (tmp_path / "folder" / ".kept").exists()
    assert (tmp_path / "b").exists()


async def test_without_a_working_directory_only_figures_come_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "private.txt").write_text("private")
    tools = PythonInterpreterToolSet("python")
    answer = await tools.run_python_code(
        "print(os.listdir('.'))\nopen('a.txt', 'w').close()\nlines = plt.plot([1])\nplt.show()"
    )
    assert answer["stdout"] == "[]\n"
    assert {path.name for path in tmp_path.iterdir()} == {"private.txt", ".matplotlib_figs"}
    assert (tmp_path / answer["fig_storage_path"]).is_file()
    await tools.cleanup()


async def test_initial_code(tmp_path):
    tools = PythonInterpreterToolSet("python", init_code="greeting = 'hello'")
    assert (await tools.run_python_code("greeting"))["stdout"] == "hello\n"
    await tools.run_python_code("import os\nos._exit(1)")
    assert (await tools.run_python_code("greeting"))["stdout"] == "hello\n"
    await tools.cleanup()


async def test_the_original_s_initial_code_works(tmp_path):
    from pantheon.toolsets.python.python_interpreter import DEFAULT_INIT_CODE

    tools = PythonInterpreterToolSet("python", str(tmp_path), init_code=DEFAULT_INIT_CODE)
    answer = await tools.run_python_code("plt.plot([1])\nplt.show()")
    assert len(answer["base64_uri"]) == 1
    await tools.cleanup()


async def test_it_can_be_copied_into_another_process_before_its_first_use():
    copy = pickle.loads(cloudpickle.dumps(PythonInterpreterToolSet("python")))
    assert (await copy.run_python_code("1 + 1"))["stdout"] == "2\n"
    await copy.cleanup()


async def test_a_shared_executor_is_asked_instead():
    class Executor:
        def execute(self, code):
            return {"result": 1, "output": code, "error": None}

    tools = PythonInterpreterToolSet("python", shared_executor=Executor())
    assert await tools.run_python_code("x") == {
        "success": True,
        "result": 1,
        "stdout": "x",
        "stderr": "",
    }


async def test_install_reaches_every_module_and_can_be_undone():
    import pantheon.toolsets
    import pantheon.toolsets.python

    compat.install()
    try:
        assert pantheon.toolsets.python.PythonInterpreterToolSet is PythonInterpreterToolSet
        assert pantheon.toolsets.PythonInterpreterToolSet is PythonInterpreterToolSet
    finally:
        compat.uninstall()
    assert pantheon.toolsets.PythonInterpreterToolSet is not PythonInterpreterToolSet


async def test_without_the_framework():
    program = (
        "import sys, asyncio\n"
        "sys.modules['pantheon'] = None\n"
        "from belljar.compat.pantheon import PythonInterpreterToolSet\n"
        "tools = PythonInterpreterToolSet('python')\n"
        "assert set(tools.tool_functions) == {'run_python_code', 'manage_interpreters'}\n"
        "assert len(tools.functions) == 6\n"
        "async def main():\n"
        "    await tools.run_python_code('x = 20')\n"
        "    print((await tools.run_python_code('x + 1'))['stdout'])\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "21\n\n", done.stderr
