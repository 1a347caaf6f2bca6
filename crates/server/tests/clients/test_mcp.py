"""MCP with the clients that people use, over standard streams and over HTTP, in both revisions."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from conftest import COMMAND

# The older revision, 2025-11-25, and the one that a client of the newer finds.
MODES = ["legacy", "auto"]
TIME = 60
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


def passed_on():
    return {
        name: os.environ[name] for name in ("BELLJAR_CACHE", "BELLJAR_WHEEL") if name in os.environ
    }


def stdio(*arguments, env=None):
    return StdioServerParameters(
        command=COMMAND, args=["mcp", *arguments], env={**passed_on(), **(env or {})}
    )


def over_http(server, **headers):
    client = httpx2.AsyncClient(
        headers={**server.headers, **headers}, timeout=httpx2.Timeout(TIME, read=TIME)
    )
    return streamable_http_client(server.url + "/mcp", http_client=client)


@contextlib.asynccontextmanager
async def connected(way, mode, server=None, **options):
    transport = stdio() if way == "stdio" else over_http(server)
    async with asyncio.timeout(TIME):
        async with Client(transport, mode=mode, **options) as client:
            yield client


@pytest.fixture(params=["stdio", "http"])
def way(request):
    return request.param


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def run(client, code, **arguments):
    return await client.call_tool("run_python", {"code": code, **arguments})


def alone(coroutine):
    return asyncio.run(coroutine)


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
            with pytest.raises(MCPError, match="no tool"):
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


# Over HTTP only.


def headers_of(server, **more):
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    return {**accept, **server.headers, **more}


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    },
}


def test_who_has_no_key_and_who_comes_from_elsewhere_is_refused(server, open_server):
    url = server.url + "/mcp"
    assert httpx2.post(url, json=INITIALIZE).status_code == 401
    wrong = {**headers_of(server), "Authorization": "Bearer belljar_0000"}
    assert httpx2.post(url, json=INITIALIZE, headers=wrong).status_code == 401
    for one, status in [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:6274"}, 403),
    ]:
        for started in (server, open_server):
            answer = httpx2.post(
                started.url + "/mcp", json=INITIALIZE, headers=headers_of(started, **one)
            )
            assert answer.status_code == status, (one, answer.text)
    rebound = headers_of(open_server, Host="evil.example")
    answer = httpx2.post(open_server.url + "/mcp", json=INITIALIZE, headers=rebound)
    assert answer.status_code == 403


def test_a_session_of_the_protocol_is_found_with_its_own_id_only(server):
    url = server.url + "/mcp"
    answer = httpx2.post(url, json=INITIALIZE, headers=headers_of(server))
    session = answer.headers["mcp-session-id"]
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    mine = headers_of(server, **{"Mcp-Session-Id": session})
    assert httpx2.post(url, json=initialized, headers=mine).status_code == 202
    assert httpx2.post(url, json=ping, headers=mine).status_code == 200
    inner, _, signature = session.partition(".")
    for wrong in [inner, f"{inner}.", f"{inner}.{'0' * 64}", f"x.{signature}", "", "é".encode()]:
        theirs = headers_of(server, **{"Mcp-Session-Id": wrong})
        assert httpx2.post(url, json=ping, headers=theirs).status_code in (400, 404)
        assert httpx2.delete(url, headers=theirs).status_code in (400, 404)
    assert httpx2.delete(url, headers=mine).is_success


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"jsonrpc":"2.0"}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":[]}}',
    ],
    ids=range(9),
)
def test_a_message_that_is_none_is_refused(server, body):
    answer = httpx2.post(server.url + "/mcp", content=body, headers=headers_of(server))
    assert 400 <= answer.status_code < 500, answer.text


def test_a_body_that_is_too_large_is_refused(server):
    def endless():
        yield b'{"jsonrpc":"2.0","id":1,"method":"'
        for _ in range(40):
            yield b"x" * (1 << 20)

    with contextlib.suppress(httpx2.TransportError):
        answer = httpx2.post(server.url + "/mcp", content=endless(), headers=headers_of(server))
        assert answer.status_code == 413
    assert httpx2.get(server.url + "/healthz").status_code == 200


# Over standard streams only.


class Raw:
    """A client that writes what it likes."""

    def __init__(self, *arguments, tmp=None):
        env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **passed_on()}
        if tmp:
            env["TMPDIR"] = str(tmp)
        self.process = subprocess.Popen(
            [COMMAND, "mcp", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
        )

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method, number=None, **params):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        self.write(json.dumps(message).encode() + b"\n")

    def initialize(self):
        self.write(json.dumps(INITIALIZE).encode() + b"\n")
        answer = self.read()
        self.send("notifications/initialized")
        return answer

    def read(self):
        return json.loads(self.process.stdout.readline())

    def answer(self, number):
        while True:
            message = self.read()
            if message.get("id") == number:
                return message

    def run(self, number, code, **more):
        self.send("tools/call", number, name="run_python", arguments={"code": code, **more})

    def end(self, timeout=10):
        self.process.stdin.close()
        return self.process.wait(timeout)


@pytest.fixture
def raw(tmp_path):
    client = Raw(tmp=tmp_path)
    yield client
    client.process.kill()
    client.process.wait()


def test_garbage_between_messages_does_no_harm(raw):
    raw.initialize()
    raw.write(b"\n\r\n}{\n\x00\xff\xfe\n[" + b"[" * 200_000 + b"\n")
    raw.write(b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":7}\n')
    raw.write(b'{"jsonrpc":"2.0","id":"' + b"x" * 1_000_000 + b'","method":"nope"}\n')
    raw.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}\n')
    raw.write(b'{"jsonrpc":"2.0","id":77,"result":{}}\n')
    raw.write(b'{"x":"' + b"y" * (40 << 20) + b'"}\n')
    raw.run(7, "print('still here')")
    assert raw.answer(7)["result"]["content"][0]["text"] == "still here\n"
    assert raw.end() == 0


def test_the_end_of_the_input_ends_everything(raw, tmp_path):
    raw.initialize()
    raw.send("tools/call", 2, name="create_session", arguments={"image": "core"})
    session = raw.answer(2)["result"]["structuredContent"]["session_id"]
    raw.run(3, "open('a', 'w').write('x' * 100000)", session_id=session)
    raw.answer(3)
    raw.run(4, "open('b', 'w').write('x')\nwhile True: pass", timeout=50)
    raw.run(
        5,
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
        session_id=session,
        timeout=50,
    )
    time.sleep(1)
    started = time.monotonic()
    raw.end(timeout=5)
    assert time.monotonic() - started < 4
    assert [path for path in tmp_path.rglob("*") if path.exists()] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_does_too(raw, tmp_path, number):
    raw.initialize()
    raw.run(4, "open('b', 'w').write('x')\nwhile True: pass", timeout=50)
    time.sleep(1)
    raw.process.send_signal(number)
    raw.process.wait(5)
    assert list(tmp_path.rglob("*")) == []


def test_a_client_that_reads_nothing_does_not_hold_up_the_end(raw):
    raw.initialize()
    for number in range(10, 40):
        raw.run(number, "print('x' * 500_000)")
    time.sleep(1)
    assert raw.end(timeout=8) is not None


# Code that calls other servers.

SERVERS = Path(__file__).parent / "mcp_servers"


def servers_file(tmp_path, **servers):
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


def python(script, *arguments, **more):
    return {"command": sys.executable, "args": [str(SERVERS / script), *arguments], **more}


@contextlib.asynccontextmanager
async def with_servers(tmp_path, *arguments, mode="legacy", **servers):
    file = servers_file(tmp_path, **servers)
    async with asyncio.timeout(TIME):
        async with Client(stdio("--with", file, *arguments), mode=mode) as client:
            yield client


def test_code_calls_the_tools_of_another_server(tmp_path, mode):
    code = """
import asyncio, inspect, tools
from tools.shop import price, find
print(price("tea"), price(name="milk", currency="XXX"))
print([item["name"] for item in find("drink")], find("food"), len(find(None, 1)))
print(tools.shop.describe({"name": "tea", "price": 3.5}))
print(tools.shop.say_hello("Ada"))
try:
    price("gold")
except tools.ToolError as error:
    print("refused:", error)
try:
    price(3)
except tools.ToolError as error:
    print(error.kind)
print(inspect.signature(price), price.__doc__.splitlines()[0])
async def main():
    return await asyncio.gather(*(tools.shop.nap(0.5) for _ in range(6)))
print(asyncio.run(main()))
for name in ["HOME", "BELLJAR_CACHE", "OWN"]:
    print(name in tools.shop.environment())
"""

    async def main():
        async with with_servers(
            tmp_path, mode=mode, shop=python("shop.py", env={"OWN": "1"})
        ) as client:
            tool = (await client.list_tools()).tools[0]
            assert (
                "tools.shop.price(name: str, currency: str = None) -> float  # The price of so"
                in tool.description
            )
            assert 'list[{"name": str, "price": float, "tags": list[str]}]' in tool.description
            assert tool.annotations.open_world_hint
            result = await run(client, code)
            lines = text(result).splitlines()
            assert lines[0] == "3.5 2.5", text(result)
            assert lines[1] == "['tea', 'milk'] [] 1"
            assert lines[2] == "{'text': 'tea costs 3.5'}"
            assert lines[3] == "Hello, Ada!"
            assert lines[4].startswith("refused:")
            assert "there is no gold" in lines[4]
            assert lines[5] == "invalid_arguments"
            assert lines[6].startswith("(name: str, currency: str")
            assert lines[7] == str(["awake"] * 6)
            assert lines[8:] == ["True", "False", "True"]
            calls = result.structured_content["tool_calls"]
            assert calls[0]["name"] == "shop.price"
            assert calls[0]["arguments"] == {"name": "tea"}
            assert len(calls) == 18
            assert not calls[7]["ok"]
            session = (await client.call_tool("create_session", {})).structured_content[
                "session_id"
            ]
            result = await run(client, "import tools\ntools.shop.price('tea')", session_id=session)
            assert text(result) == "3.5\n"

    alone(main())


def test_only_what_is_allowed_can_be_called(tmp_path):
    async def names(*arguments, **more):
        async with with_servers(tmp_path, *arguments, shop=python("shop.py", **more)) as client:
            result = await run(client, "import tools\nprint(*(n for n in tools.shop.__all__))")
            return text(result).split()

    assert alone(names("--allow", "shop.price", "--allow", "shop.f*")) == ["price", "find"]
    assert alone(names("--allow", "shop", allow=["price", "n*"])) == ["price", "nap"]
    file = servers_file(tmp_path, shop=python("shop.py"))
    failed = subprocess.run(
        [COMMAND, "mcp", "--with", file, "--allow", "shop.nothing"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=TIME,
    )
    assert failed.returncode == 2
    assert "shop.nothing" in failed.stderr


def test_a_server_that_hangs_dies_or_floods_costs_its_own_calls(tmp_path):
    code = """
import time, tools
def of(call, **arguments):
    started = time.monotonic()
    try:
        got = call(**arguments)
        print(call.__name__, "answered", repr(got)[:60])
    except tools.ToolError as error:
        print(call.__name__, error.kind, error)
    assert time.monotonic() - started < 8
of(tools.bad.ask)
of(tools.bad.garbage)
of(tools.bad.huge)
of(tools.bad.add, a=1)
of(tools.bad.flood)
of(tools.bad.add)
of(tools.slow.hang)
of(tools.shop.die)
of(tools.shop.price, name="tea")
of(tools.fine.price, name="tea")
"""

    async def main():
        async with with_servers(
            tmp_path,
            bad=python("hostile.py", "answers", timeout=6),
            slow=python("hostile.py", "answers", timeout=1),
            shop=python("shop.py"),
            fine=python("shop.py"),
        ) as client:
            result = await run(client, code, timeout=50)
            lines = text(result).splitlines()
            assert not result.is_error, text(result)
            # Nobody makes it a model's answer; there are no roots.
            assert lines[0] in ("ask answered '[true, false]'", "ask answered '[false, true]'"), (
                text(result)
            )
            assert lines[1].startswith("garbage tool_error")
            assert "too_large" in lines[2]
            assert lines[3] == "add answered 'add'"
            assert "cut off" in lines[4]
            assert "cut off" in lines[5]
            assert "timeout" in lines[6]
            assert "has ended" in lines[7]
            assert "has ended" in lines[8]
            assert lines[9] == "price answered 3.5"

    alone(main())


def test_what_a_server_says_of_its_tools_is_text_and_nothing_else(tmp_path):
    code = """
import tools
print(sorted(n for n in tools.bad.__all__))
print("os._exit" in tools.bad.add.__doc__, chr(27) in tools.bad.add.__doc__)
help(tools.bad)
print(tools.bad.loop(a=1), tools.bad.fetch(a=[1]), tools.bad.class_())
print("survived")
"""

    async def main():
        async with with_servers(tmp_path, bad=python("hostile.py", "answers")) as client:
            description = (await client.list_tools()).tools[0].description
            lines = [line for line in description.splitlines() if line.startswith("tools.")]
            assert len(lines) == 11, lines
            assert all(line.startswith("tools.bad.") for line in lines), lines
            assert "\u202e" not in description
            assert "\x1b" not in description
            result = await run(client, code)
            assert not result.is_error, text(result)
            assert text(result).rstrip().endswith("survived")
            assert "True False" in text(result)

    alone(main())


@pytest.mark.parametrize("kind", ["dead", "endless", "noise"])
def test_a_server_that_cannot_be_had_is_told(tmp_path, kind):
    file = servers_file(tmp_path, bad=python("hostile.py", kind))
    started = time.monotonic()
    failed = subprocess.run(
        [COMMAND, "mcp", "--with", file],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=TIME,
    )
    assert time.monotonic() - started < 30
    assert failed.returncode == 2
    assert failed.stdout == ""
    expected = {
        "dead": "no such module: whatever",
        "endless": "can have 256",
        "noise": "server bad",
    }
    assert expected[kind] in failed.stderr, failed.stderr


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGKILL])
def test_other_servers_end_with_us(tmp_path, number):
    script = "import os,sys,time\nopen(sys.argv[1],'w').write(str(os.getpid()))\ntime.sleep(3600)"
    # One that answers nothing and looks at nothing, beside one that does.
    marks = tmp_path / "pid"
    child = f"[sys.executable, '-c', {script!r}, {str(marks)!r}]"
    wrapper = f"import subprocess, sys\nsubprocess.Popen({child})\n"
    wrapper += (SERVERS / "shop.py").read_text()
    program = tmp_path / "wrapped.py"
    program.write_text(wrapper)
    file = servers_file(tmp_path, shop={"command": sys.executable, "args": [str(program)]})
    client = Raw("--with", file)
    try:
        client.initialize()
        client.run(2, "import tools\nprint(tools.shop.price('tea'))")
        assert client.answer(2)["result"]["content"][0]["text"] == "3.5\n"
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(client.process.pid)], capture_output=True, text=True
        ).stdout.split()
        assert children
        watched = children if number == signal.SIGKILL else [*children, marks.read_text()]
        if number is None:
            client.process.stdin.close()
        else:
            client.process.send_signal(number)
        client.process.wait(8)
        deadline = time.monotonic() + 5
        while any(is_alive(pid) for pid in watched):
            assert time.monotonic() < deadline, watched
            time.sleep(0.05)
    finally:
        client.process.kill()
        if marks.exists() and is_alive(marks.read_text()):
            os.kill(int(marks.read_text()), signal.SIGKILL)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ")[1][0] != "Z"
    except OSError:
        return False


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
