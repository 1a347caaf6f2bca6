"""Code that calls the tools of other servers, which are processes."""

import os
import signal
import subprocess
import sys
import time

import pytest
from mcp_support import (
    SERVERS,
    TIME,
    Raw,
    alone,
    is_alive,
    python,
    run,
    servers_file,
    text,
    with_servers,
)

from conftest import COMMAND


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
            # Sampling and roots are not supported.
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
        "endless": "at most 256",
        "noise": "server bad",
    }
    assert expected[kind] in failed.stderr, failed.stderr


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGKILL])
def test_other_servers_end_with_us(tmp_path, number):
    script = "import os,sys,time\nopen(sys.argv[1],'w').write(str(os.getpid()))\ntime.sleep(3600)"
    # A server that ignores everything, and a normal server.
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
