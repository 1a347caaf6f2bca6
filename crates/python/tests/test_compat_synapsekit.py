"""The replacement of SynapseKit's tool: its payload, its error texts, and additions."""

import json
import subprocess
import sys

import pytest

synapsekit = pytest.importorskip("synapsekit", reason="synapsekit is not installed")

from synapsekit.agents.base import BaseTool, ToolResult  # noqa: E402

import belljar  # noqa: E402
from belljar.compat import synapsekit as compat  # noqa: E402
from belljar.compat.synapsekit import CodeInterpreterTool  # noqa: E402

pytestmark = pytest.mark.asyncio

KEYS = ["stdout", "stderr", "files", "plots", "dataframes"]


async def run(code, **options):
    result = await CodeInterpreterTool(**options).run(code=code)
    return result, json.loads(result.output)


async def test_it_is_one_of_the_framework_s_tools():
    tool = CodeInterpreterTool()
    assert isinstance(tool, BaseTool)
    assert (tool.timeout, tool.memory_limit_mb) == (5.0, 256)
    original = sys.modules["synapsekit.agents.tools.code_interpreter"].CodeInterpreterTool
    assert tool.name == original.name
    assert tool.schema()["function"]["parameters"] == original().schema()["function"]["parameters"]
    assert tool.anthropic_schema()["input_schema"] == tool.parameters


async def test_streams_and_files():
    result, payload = await run(
        "import pathlib, sys\n"
        "print('to stdout')\n"
        "print('to stderr', file=sys.stderr)\n"
        "pathlib.Path('a.txt').write_text('data')\n"
    )
    assert type(result) is ToolResult
    assert not result.is_error
    assert list(payload) == KEYS
    assert payload["stdout"] == "to stdout\n"
    assert payload["stderr"] == "to stderr\n"
    assert payload["files"] == [{"path": "a.txt", "size": 4}]
    assert str(result) == result.output


async def test_input_is_another_name_of_code():
    assert '"stdout": "1\\n"' in (await CodeInterpreterTool().run(input="print(1)")).output


async def test_no_code():
    for result in (await CodeInterpreterTool().run(), await CodeInterpreterTool().run(code="")):
        assert (result.output, result.error) == ("", "No code provided.")


async def test_an_exception_keeps_everything_else():
    result, payload = await run(
        "import pandas as pd\n"
        "import matplotlib.pyplot as plt\n"
        "df = pd.DataFrame({'a': [1]})\n"
        "plt.plot([1])\n"
        "print('so far')\n"
        "open('a.txt', 'w').write('data')\n"
        "raise ValueError('no')\n"
    )
    first, *told = result.error.splitlines()
    assert first == "ValueError: no"
    assert 'File "<string>", line 7, in <module>' in "\n".join(told)
    assert "so far" in told
    assert str(result) == result.error
    assert payload["stdout"] == "so far\n"
    assert payload["stderr"].startswith("Traceback (most recent call last):\n")
    assert [file["path"] for file in payload["files"]] == ["a.txt", "plots/plot_1.png"]
    assert len(payload["plots"]) == len(payload["dataframes"]) == 1


async def test_a_timeout_keeps_what_was_there():
    result, payload = await run("print('so far')\nwhile True:\n    pass", timeout=1.0)
    assert result.error.splitlines()[0] == "Code execution timed out after 1.0 seconds"
    assert "line 3 was running" in result.error
    assert payload["stdout"] == "so far\n"
    result, _ = await run("while True: pass", limits=belljar.Limits(timeout=0.5))
    assert result.error.splitlines()[0] == "Code execution timed out after 0.5 seconds"


async def test_the_memory_limit():
    result, _ = await run("x = bytearray(256 << 20)\nprint(len(x))", memory_limit_mb=64)
    assert result.error.splitlines()[0] == "Memory limit exceeded during code execution"
    result, payload = await run("print(len(bytearray(300 << 20)))", memory_limit_mb=0)
    assert not result.is_error
    assert payload["stdout"] == f"{300 << 20}\n"


@pytest.mark.parametrize("code", ["exit()", "import sys\nsys.exit(0)"])
async def test_leaving_is_no_error(code):
    result, payload = await run(f"print('bye')\n{code}")
    assert result.error is None
    assert payload["stdout"] == "bye\n"


async def test_leaving_with_a_status_is_no_matter_of_memory():
    result, payload = await run("print('bye')\nimport sys\nsys.exit(3)")
    assert result.error.startswith("SystemExit: 3")
    assert payload["stdout"] == "bye\n"


async def test_the_payload_cannot_be_forged():
    _, payload = await run(
        "import json, os, sys\n"
        'os.write(1, b\'{"stdout": "forged"}\')\n'
        "json.dumps = print\n"
        "payload = sys.stdout = None\n"
    )
    assert list(payload) == KEYS
    assert payload["stdout"] == '{"stdout": "forged"}'


async def test_a_stand_in_for_matplotlib_whose_savefig_takes_a_path_only():
    _, payload = await run(
        "import sys, types\n"
        "class Figure:\n"
        "    def savefig(self, path):\n"
        "        with open(path, 'wb') as file:\n"
        "            file.write(b'figure')\n"
        "plt = types.ModuleType('matplotlib.pyplot')\n"
        "plt.get_fignums = lambda: [1]\n"
        "plt.figure = lambda number: Figure()\n"
        "sys.modules['matplotlib'] = types.ModuleType('matplotlib')\n"
        "sys.modules['matplotlib'].pyplot = sys.modules['matplotlib.pyplot'] = plt\n"
    )
    assert payload["plots"] == [{"path": "plots/plot_1.png", "size": 6}]


async def test_a_stand_in_for_a_frame():
    _, payload = await run(
        "class Frame:\n"
        "    __module__ = 'pandas.core.frame'\n"
        "    def __repr__(self):\n"
        "        return 'col\\n1'\n"
        "df = Frame()\n"
    )
    assert payload["dataframes"] == [{"name": "df", "repr": "col\n1"}]


async def test_metadata_has_the_outcome_and_the_artifacts():
    tool = CodeInterpreterTool(files={"in.txt": b"abc"})
    result = await tool.run(code="open('out.txt', 'w').write(open('in.txt').read() * 2)")
    assert result.metadata["outcome"]["success"] is True
    assert result.metadata["run"]["out.txt"] == b"abcabc"


async def test_install_reaches_every_module_and_can_be_undone():
    import synapsekit.agents.tools as tools

    original = tools.CodeInterpreterTool
    compat.install()
    try:
        compat.install()
        assert tools.CodeInterpreterTool is CodeInterpreterTool
        assert synapsekit.CodeInterpreterTool is CodeInterpreterTool
        assert synapsekit.agents.CodeInterpreterTool is CodeInterpreterTool
        assert tools.code_interpreter.CodeInterpreterTool is CodeInterpreterTool
    finally:
        compat.uninstall()
    assert tools.CodeInterpreterTool is original is synapsekit.CodeInterpreterTool


async def test_without_the_framework():
    program = (
        "import sys, asyncio, json\n"
        "sys.modules['synapsekit'] = None\n"
        "from belljar.compat.synapsekit import CodeInterpreterTool\n"
        "tool = CodeInterpreterTool()\n"
        "assert tool.schema()['function']['name'] == 'code_interpreter'\n"
        "result = asyncio.run(tool.run(code='print(1)'))\n"
        "assert not result.is_error and str(result) == result.output\n"
        "print(json.loads(result.output)['stdout'], repr(tool))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "1\n CodeInterpreterTool(name='code_interpreter')\n", done.stderr
