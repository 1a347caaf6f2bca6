"""docs/guide/clients.md: every block of it, as printed, with the client that it is for.

`KEY` and the address are replaced by those of a started server, and nothing else is.
"""

import asyncio
import importlib.util
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path

import httpx
import nbformat
import pytest
import yaml
from conftest import COMMAND, TOP, start
from mcp import Client, StdioServerParameters
from mcp_support import alone, over_http, passed_on, text
from nbformat.v4 import new_code_cell, new_notebook

PAGE = TOP / "docs" / "guide" / "clients.md"
# Clients start `belljar` by its name, and Jupyter's own commands too: `jupyter` beside `belljar` is
# a fuzz target.
PATH = os.pathsep.join(
    [str(Path(sys.executable).parent), str(Path(COMMAND).parent), os.environ["PATH"]]
)


def blocks():
    """The fenced blocks of the page in their order: heading, language and text."""
    heading, language, lines, found = "", None, [], []
    for number, line in enumerate(PAGE.read_text().splitlines(), 1):
        if line.startswith("```"):
            if language is None:
                assert line != "```", f"line {number}: a block without a language"
                language, lines = line[3:], []
            else:
                assert line == "```", f"line {number}: the block before it is not closed"
                found.append((heading, language, "\n".join(lines) + "\n"))
                language = None
        elif language is not None:
            assert not line.startswith("## "), f"line {number}: the block before it is not closed"
            lines.append(line)
        elif line.startswith("## "):
            heading = line[3:]
    assert language is None, "the last block is not closed"
    return found


BLOCKS = blocks()


@pytest.fixture(scope="module")
def everything():
    """A server with all interfaces."""
    started = start("--faces", "all")
    yield started
    assert started.stop() == 0


def variables(block):
    """The environment that a block of `NAME=VALUE` sets."""
    return dict(word.split("=", 1) for word in shlex.split(block))


async def imported(code, **names):
    """Runs Python as printed, `await` and `async with` included, and returns its names."""
    body = textwrap.indent(f"{code}\nreturn locals()\n", "    ")
    scope = {}
    exec(f"async def printed({', '.join(names)}):\n{body}", scope)  # noqa: S102 - our own page
    return await scope["printed"](**names)


def e2b(block, server, monkeypatch, tmp_path):
    for name, value in variables(block).items():
        monkeypatch.setenv(name, value)
    from e2b_code_interpreter import Sandbox

    with Sandbox.create() as sandbox:
        assert sandbox.run_code("6 * 7").text == "42"


def dify(block, server, monkeypatch, tmp_path):
    environment = variables(block)
    answer = httpx.post(
        environment["CODE_EXECUTION_ENDPOINT"] + "/v1/sandbox/run",
        headers={"X-Api-Key": environment["CODE_EXECUTION_API_KEY"]},
        json={"language": "python3", "code": "print(42)", "preload": "", "enable_network": True},
        timeout=60,
    )
    assert answer.json()["data"]["stdout"] == "42\n"


def verl(block, server, monkeypatch, tmp_path):
    """verl's own configuration has the setting, and its own client uses the address."""
    # The package imports PyTorch; its configuration as composed and this client need none.
    package = Path(importlib.util.find_spec("verl").submodule_search_locations[0])
    config = package / "trainer" / "config" / "_generated_ppo_trainer.yaml"
    path, url = block.strip().split("=", 1)
    settings = yaml.safe_load(config.read_text())
    for name in path.split("."):
        assert name in settings, f"verl's configuration has no {path}"
        settings = settings[name]
    client = package / "utils" / "reward_score" / "sandbox_fusion" / "utils.py"
    spec = importlib.util.spec_from_file_location("verl_sandbox_fusion", client)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    [result], [told] = module.check_correctness(
        url, {"inputs": ["20\n"], "outputs": ["42\n"]}, "print(int(input()) + 22)", timeout=30
    )
    assert result is True, told


def sandbox_fusion(block, server, monkeypatch, tmp_path):
    import sandbox_fusion as package

    exec(block, {"sandbox_fusion": package})  # noqa: S102 - our own page
    request = package.RunCodeRequest(code="print(42)", language="python")
    assert package.run_code(request).run_result.stdout == "42\n"


def librechat(block, server, monkeypatch, tmp_path):
    environment = variables(block)
    answer = httpx.post(
        environment["LIBRECHAT_CODE_BASEURL"] + "/exec",
        headers={"X-API-Key": environment["LIBRECHAT_CODE_API_KEY"]},
        json={"lang": "py", "code": "print(42)"},
        timeout=60,
    )
    assert answer.json()["stdout"] == "42\n"


def openai_containers(block, server, monkeypatch, tmp_path):
    import openai
    import openai.types.responses

    scope = {"openai": openai}
    exec(block, scope)  # noqa: S102 - our own page
    assert scope["call"].outputs[0].logs == "(1, 2)\n"
    scope["client"].containers.delete(scope["container"].id)


def piston(block, server, monkeypatch, tmp_path):
    import pyston
    import ultra_piston

    scope = {"pyston": pyston, "ultra_piston": ultra_piston}
    ultra, other = block.splitlines()
    ran = eval(ultra, scope).post_execute(  # noqa: S307 - our own page
        language="python", version="3", file=ultra_piston.File(content="print(42)")
    )
    assert ran.run.output == "42\n"

    async def run():
        client = eval(other, scope)  # noqa: S307 - our own page
        try:
            return await client.execute("python", [pyston.File("print(42)")])
        finally:
            await client.close_session()

    assert "42" in str(asyncio.run(run()))


def judge0(block, server, monkeypatch, tmp_path):
    import judge0 as package

    lines = block.splitlines()
    scope = {"judge0": package}
    exec("\n".join([*lines[:-1], f"done = {lines[-1]}"]), scope)  # noqa: S102 - our own page
    assert scope["done"].stdout == "1\n"


async def prints(client, code="print(42)"):
    """Whether the tools of a client of MCP run."""
    assert "42" in text(await client.call_tool("run_python", {"code": code}))


def started_by(entry):
    """Runs the command of an entry of a configuration file as a client of MCP does."""

    async def run():
        environment = {**passed_on(), "PATH": PATH}
        server = StdioServerParameters(
            command=entry["command"], args=entry["args"], env=environment
        )
        async with Client(server) as client:
            await prints(client)

    alone(run())


def mcp_json(block, server, monkeypatch, tmp_path):
    [entries] = json.loads(block).values()
    started_by(entries["belljar"])


def mcp_toml(block, server, monkeypatch, tmp_path):
    started_by(tomllib.loads(block)["mcp_servers"]["belljar"])


def claude_code(block, server, monkeypatch, tmp_path):
    by_command, by_url = map(shlex.split, block.splitlines())
    assert by_command[:5] == ["claude", "mcp", "add", "belljar", "--"]
    started_by({"command": by_command[5], "args": by_command[6:]})
    assert by_url[:6] == ["claude", "mcp", "add", "--transport", "http", "belljar"]
    assert by_url[6] == server.url + "/mcp"
    assert by_url[7] == "--header"
    name, value = by_url[8].split(": ")

    async def run():
        server_without_key = type(server)(server.url, None, server.process)
        async with Client(over_http(server_without_key, **{name: value})) as client:
            await prints(client)

    alone(run())


def pydantic_ai(block, server, monkeypatch, tmp_path):
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    monkeypatch.setenv("PATH", PATH)

    async def run():
        made = await imported(
            block.replace('Agent("...",', "Agent(TestModel(),"), TestModel=TestModel, Agent=Agent
        )
        [toolset] = [it for it in made["agent"].toolsets if type(it).__name__ == "MCPToolset"]
        async with toolset:
            names = [tool.name for tool in await toolset.list_tools()]
        assert "run_python" in names

    alone(run())


def openai_agents(block, server, monkeypatch, tmp_path):
    from agents import Agent

    monkeypatch.setenv("PATH", PATH)
    code = f"{block}    tools = await belljar.list_tools()\n"

    async def run():
        made = await imported(code, Agent=Agent)
        assert "run_python" in [tool.name for tool in made["tools"]]
        assert made["agent"].mcp_servers

    alone(run())


def langchain(block, server, monkeypatch, tmp_path):
    """In an environment of its own, which `BELLJAR_LANGCHAIN_PYTHON` names."""
    python = os.environ.get("BELLJAR_LANGCHAIN_PYTHON")
    if not python:
        pytest.skip("BELLJAR_LANGCHAIN_PYTHON is not set")
    more = """\
[tool] = [tool for tool in tools if tool.name == "run_python"]
print(await tool.ainvoke({"code": "print(42)"}))
"""
    body = textwrap.indent(block + more, "    ")
    code = f"import asyncio\nasync def printed():\n{body}\nasyncio.run(printed())\n"
    done = subprocess.run(  # noqa: S603 - our own page
        [python, "-c", code],
        env={**os.environ, "PATH": PATH},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "42" in done.stdout, done.stderr


def mcp_python(block, server, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", PATH)
    alone(imported(block))
    assert "1" in capsys.readouterr().out


def console(block, directory):
    """The commands of a block, with the environment that they are to run in."""
    environment = {
        **os.environ,
        "PATH": PATH,
        "HOME": str(directory),
        "JUPYTER_CONFIG_DIR": str(directory / "config"),
        "JUPYTER_DATA_DIR": str(directory / "data"),
        "BELLJAR_CACHE": os.environ.get("BELLJAR_CACHE", str(Path.home() / ".cache" / "belljar")),
    }
    assert all(line.startswith("$ ") for line in block.splitlines())
    return [shlex.split(line[2:]) for line in block.splitlines()], environment


def papermill(block, server, monkeypatch, tmp_path):
    nbformat.write(new_notebook(cells=[new_code_cell("print(42)")]), tmp_path / "in.ipynb")
    commands, environment = console(block, tmp_path)
    # The same prefix for both: the kernel goes to the user's folder of kernels.
    environment.pop("JUPYTER_DATA_DIR")
    for command in commands:
        subprocess.run(  # noqa: S603
            command, cwd=tmp_path, env=environment, check=True, timeout=120
        )
    done = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert done.cells[-1].outputs[0]["text"] == "42\n"


@contextmanager
def running(command, environment, directory):
    process = subprocess.Popen(  # noqa: S603 - the commands of our own page
        command,
        cwd=directory,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def gateway(block, server, monkeypatch, tmp_path):
    (serve, lab), environment = console(block, tmp_path)
    # The server is already running on its own port.
    assert serve == ["belljar", "serve"]
    socket_port = free_port()
    (tmp_path / "config").mkdir()
    settings = {
        "ServerApp": {
            "port": socket_port,
            "port_retries": 0,
            "open_browser": False,
            "allow_root": True,
            "root_dir": str(tmp_path),
        },
        "IdentityProvider": {"token": "t"},
    }
    (tmp_path / "config" / "jupyter_server_config.json").write_text(json.dumps(settings))
    with running(lab, environment, tmp_path) as jupyter:
        url = f"http://127.0.0.1:{socket_port}/api/kernelspecs?token=t"
        until = time.monotonic() + 120
        while True:
            assert jupyter.poll() is None, "JupyterLab ended"
            try:
                specs = httpx.get(url, timeout=30)
                break
            except httpx.HTTPError:
                assert time.monotonic() < until, "JupyterLab does not answer"
                time.sleep(0.3)
        assert "belljar" in specs.json()["kernelspecs"]
        made = httpx.post(
            f"http://127.0.0.1:{socket_port}/api/kernels?token=t", json={}, timeout=60
        )
        assert made.status_code == 201, made.text


def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def autogen(block, server, monkeypatch, tmp_path):
    from autogen_core import CancellationToken
    from autogen_core.code_executor import CodeBlock
    from autogen_ext.code_executors.docker_jupyter import DockerJupyterCodeExecutor
    from autogen_ext.code_executors.docker_jupyter._jupyter_server import JupyterConnectionInfo
    from autogen_ext.code_executors.jupyter import JupyterCodeExecutor

    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    subprocess.run(  # noqa: S603 - our own command
        [COMMAND, "kernel", "install", "--prefix", str(tmp_path)], check=True, timeout=60
    )
    by_kernel, _, by_server = block.splitlines()
    assert block.splitlines()[1] == f"# {JupyterConnectionInfo.__module__}.JupyterConnectionInfo"

    async def run(line):
        made = eval(
            line,
            {  # noqa: S307 - our own page
                "JupyterCodeExecutor": JupyterCodeExecutor,
                "DockerJupyterCodeExecutor": DockerJupyterCodeExecutor,
                "JupyterConnectionInfo": JupyterConnectionInfo,
            },
        )
        async with made as executor:
            code = CodeBlock(code="print(42)", language="python")
            result = await executor.execute_code_blocks([code], CancellationToken())
            assert result.output.strip() == "42", result

    for line in (by_kernel, by_server):
        asyncio.run(run(line))


def open_webui(block, server, monkeypatch, tmp_path):
    """Checks the settings. `test_what_open_webui_asks` sends the requests."""
    for prefix, line in zip(
        ("CODE_EXECUTION", "CODE_INTERPRETER"), block.splitlines(), strict=True
    ):
        settings = variables(line)
        assert settings[f"{prefix}_ENGINE"] == "jupyter"
        assert settings[f"{prefix}_JUPYTER_AUTH"] == "token"
        answer = httpx.post(
            settings[f"{prefix}_JUPYTER_URL"] + "/api/kernels",
            params={"token": settings[f"{prefix}_JUPYTER_AUTH_TOKEN"]},
            timeout=60,
        )
        assert answer.status_code == 201, answer.text


CLIENTS_OF_MCP = [
    mcp_json, claude_code, mcp_json, mcp_json, mcp_toml, pydantic_ai, openai_agents, langchain, mcp_python,
]  # fmt: skip
BY_HEADING = {
    "E2B": [e2b],
    "Dify": [dify],
    "SandboxFusion and verl": [verl, sandbox_fusion],
    "LibreChat": [librechat],
    "Piston": [piston],
    "Judge0": [judge0],
    "OpenAI": [openai_containers],
    "Clients of MCP": CLIENTS_OF_MCP,
    "JupyterLab, Notebook, nbclient, papermill": [papermill, gateway],
    "AutoGen": [autogen],
    "Open WebUI": [open_webui],
}


def test_each_block_has_a_test():
    found = {}
    for heading, _, _ in BLOCKS:
        found[heading] = found.get(heading, 0) + 1
    assert found == {heading: len(tests) for heading, tests in BY_HEADING.items()}


def cases():
    left = {heading: list(tests) for heading, tests in BY_HEADING.items()}
    for heading, _, block in BLOCKS:
        if left.get(heading):
            test = left[heading].pop(0)
            yield pytest.param(
                test, block, id=f"{re.sub(r'[^a-z0-9]+', '-', heading.lower())}-{test.__name__}"
            )


@pytest.mark.parametrize(("test", "block"), list(cases()))
def test_a_block_works_as_printed(test, block, everything, monkeypatch, tmp_path, request):
    block = block.replace("http://127.0.0.1:3000", everything.url)
    block = block.replace("key:KEY@127.0.0.1:3000", f"key:{everything.key}@{everything.host}")
    block = block.replace("port=3000", f"port={everything.port}")
    block = re.sub(r"\bKEY\b", everything.key, block)
    more = (
        {"capsys": request.getfixturevalue("capsys")}
        if "capsys" in inspect.signature(test).parameters
        else {}
    )
    test(block, everything, monkeypatch, tmp_path, **more)
