"""MCP with the clients that people use, over standard streams and over HTTP, in both revisions."""

import asyncio
import base64
import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from mcp import MCPError
from mcp_support import TIME, alone, connected, passed_on, run, text

from conftest import COMMAND

PLOT = """
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.show()
open("a b.csv", "w").write("x,y\\n")
"""
STEPS = """
import time
for n in range(4):
    print("step", n)
    time.sleep(0.3)
"""


@pytest.fixture(params=["stdio", "http"])
def way(request):
    return request.param


def test_a_run_answers_with_text_figures_files_and_the_outcome(way, mode, server):
    async def main():
        async with connected(way, mode, server) as client:
            assert client.server_info.name == "belljar"
            assert "numpy 2" in client.instructions
            assert "session_id" in client.instructions
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == [
                "run_python",
                "create_session",
                "fork_session",
                "rewind_session",
                "list_sessions",
                "delete_session",
                "write_file",
            ]
            assert "pandas 3" in tools[0].description

            result = await run(client, "print(1)\n6 * 7")
            assert (text(result), result.is_error) == ("1\n42\n", False)
            assert result.structured_content["stdout"] == "1\n42\n"

            result = await run(client, PLOT)
            image = next(block for block in result.content if block.type == "image")
            assert base64.b64decode(image.data)[:4] == b"\x89PNG"
            links = {block.name: block for block in result.content if block.type == "resource_link"}
            assert set(links) == {"a b.csv", "plots/plot_1.png"}
            read = await client.read_resource(links["a b.csv"].uri)
            assert (read.contents[0].text, read.contents[0].mime_type) == ("x,y\n", "text/csv")
            read = await client.read_resource(links["plots/plot_1.png"].uri)
            assert base64.b64decode(read.contents[0].blob)[:4] == b"\x89PNG"
            again = await run(
                client,
                "print(open('b.csv').read())",
                files=[{"path": "b.csv", "uri": links["a b.csv"].uri}],
            )
            assert text(again) == "x,y\n\n"
            listed = [resource.uri for resource in (await client.list_resources()).resources]
            assert links["a b.csv"].uri in listed

    alone(main())


def test_an_error_says_what_happened_and_what_works(way, mode, server):
    async def main():
        async with connected(way, mode, server) as client:
            result = await run(client, "print('before')\nimport requests")
            assert result.is_error
            assert text(result).startswith("before\nModuleNotFoundError")
            assert "line 2" in text(result)
            assert "Hint: " in text(result)
            result = await run(client, "while True: pass", timeout=0.3)
            assert result.is_error
            assert "timed out after 0.3" in text(result)
            result = await client.call_tool("run_python", {"codes": "1"})
            assert result.is_error
            assert "codes" in text(result)
            result = await run(client, "1", timeout=1e9)
            assert result.is_error
            assert "must be" in text(result)
            with pytest.raises(MCPError, match="unknown tool"):
                await client.call_tool("rm_rf", {})
            with pytest.raises(MCPError) as missing:
                await client.read_resource("belljar://runs/0000/files/x")
            assert missing.value.error.data == {"uri": "belljar://runs/0000/files/x"}

    alone(main())


def test_a_session_keeps_forks_and_goes_back(way, mode, server):
    async def main():
        async with connected(way, mode, server) as client:

            async def call(name, **arguments):
                result = await client.call_tool(name, arguments)
                assert not result.is_error, text(result)
                return result.structured_content

            session = (await call("create_session", image="core"))["session_id"]
            await call("write_file", session_id=session, path="n.txt", text="5")
            first = await run(client, "n = int(open('n.txt').read())", session_id=session)
            assert first.structured_content["execution"] == 1
            fork = (await call("fork_session", session_id=session))["session_id"]
            await run(client, "n += 1", session_id=fork)
            await run(client, "n += 100", session_id=session)
            assert text(await run(client, "n", session_id=fork)) == "6\n"
            assert text(await run(client, "n", session_id=session)) == "105\n"
            await call("rewind_session", session_id=session, to=1)
            result = await run(client, "result = n", session_id=session)
            assert text(result) == "result = 5"
            listed = (await call("list_sessions"))["sessions"]
            assert [
                one["session_id"] for one in listed if one["session_id"] in (session, fork)
            ] == [
                session,
                fork,
            ]
            await call("delete_session", session_id=fork)
            await call("delete_session", session_id=session)
            gone = await run(client, "n", session_id=session)
            assert gone.is_error
            assert "no session" in text(gone)

    alone(main())


def test_progress_is_the_last_line_printed(way, mode, server):
    async def main():
        seen = []

        async def progress(count, total, message):
            seen.append((count, message))

        async with connected(way, mode, server) as client:
            await client.call_tool(
                "run_python",
                {"code": STEPS},
                progress_callback=progress,
            )
        assert "step" in seen[0][1], seen
        assert seen == sorted(seen)
        assert len(seen) >= 2

    alone(main())


def test_a_call_that_is_cancelled_interrupts_the_code(way, mode, server):
    async def main():
        async with connected(way, mode, server) as client:
            session = (
                await client.call_tool("create_session", {"image": "core"})
            ).structured_content
            session = session["session_id"]
            await run(client, "n = 0", session_id=session)
            endless = asyncio.create_task(
                run(client, "n = 1\nwhile True: pass", session_id=session, timeout=50)
            )
            await asyncio.sleep(1)
            endless.cancel()
            with contextlib.suppress(asyncio.CancelledError, MCPError):
                await endless
            started = time.monotonic()
            result = await run(client, "n", session_id=session)
            assert text(result) == "1\n"
            assert time.monotonic() - started < 10
            await client.call_tool("delete_session", {"session_id": session})

    alone(main())


def test_calls_run_at_the_same_time(way, mode, server):
    async def main():
        async with connected(way, mode, server) as client:
            await run(client, "1")
            started = time.monotonic()
            naps = [run(client, f"import time; time.sleep(1); print({n})") for n in range(8)]
            assert [text(result) for result in await asyncio.gather(*naps)] == [
                f"{n}\n" for n in range(8)
            ]
            assert time.monotonic() - started < 6

    alone(main())


# Other clients.


def test_pydantic_ai_has_the_tools():
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.test import TestModel

    async def main():
        async with asyncio.timeout(TIME):
            tools = MCPToolset(StdioTransport(COMMAND, ["mcp"], env=passed_on()))
            agent = Agent(TestModel(call_tools=["list_sessions"]), toolsets=[tools])
            async with agent:
                assert "sessions" in (await agent.run("x")).output
                result = await tools.direct_call_tool("run_python", {"code": "print(6 * 7)"})
                assert "42" in str(result)

    alone(main())


def test_openai_agents_has_the_tools(server):
    from agents import mcp as agents

    async def main():
        async with asyncio.timeout(TIME):
            params = {"command": COMMAND, "args": ["mcp"], "env": passed_on()}
            async with agents.MCPServerStdio(
                params=params, client_session_timeout_seconds=30
            ) as one:
                assert "run_python" in [tool.name for tool in await one.list_tools()]
                result = await one.call_tool("run_python", {"code": "print(6 * 7)"})
                assert result.content[0].text == "42\n"

    alone(main())


SCRIPTS = Path(__file__).parent / "js" / "mcp"


@pytest.mark.skipif(
    shutil.which("node") is None or not (SCRIPTS / "node_modules").exists(),
    reason="node, or its packages (npm ci in js/mcp), are not there",
)
def test_the_client_in_javascript_and_the_suite_of_conformance_are_content(server, open_server):
    done = subprocess.run(
        [shutil.which("node"), "--test"],
        cwd=SCRIPTS,
        env={
            **os.environ,
            "BELLJAR": COMMAND,
            "BELLJAR_URL": server.url,
            "BELLJAR_KEY": server.key,
            "BELLJAR_OPEN_URL": open_server.url,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
