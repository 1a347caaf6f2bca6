"""Code that calls the tools of other servers, which are reached over HTTP."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time

import pytest
from mcp import Client
from mcp_servers.hostile_http import Server
from mcp_support import (
    SERVERS,
    TIME,
    Raw,
    alone,
    run,
    servers_file,
    stdio,
    text,
    with_servers,
)
from tls_support import FEATURES, Pair, needs_openssl, with_tls

from conftest import COMMAND


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def shop(port=None, pair=None):
    """The shop, as Python's own server of MCP serves it over HTTP, or TLS; and its process."""
    port = port or free_port()
    way = ["--https", str(port), str(pair.cert), str(pair.key)] if pair else ["--http", str(port)]
    command = [sys.executable, str(SERVERS / "shop.py"), *way]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + TIME
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield f"http{'s' if pair else ''}://127.0.0.1:{port}/mcp", process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def hostile():
    with Server.started() as elsewhere, Server.started(elsewhere.url + "/fine") as server:
        yield server
        assert elsewhere.seen == []


CALLS = """
import asyncio, inspect, tools
from tools.shop import price
print(price("tea"), price(name="milk", currency="XXX"))
print([item["name"] for item in tools.shop.find("drink")])
print(tools.shop.describe({"name": "tea", "price": 3.5}), tools.shop.say_hello("Ada"))
try:
    price("gold")
except tools.ToolError as error:
    print("refused:", error)
print(inspect.signature(price))
async def main():
    return await asyncio.gather(*(tools.shop.nap(0.5) for _ in range(6)))
print(asyncio.run(main()))
"""


@pytest.mark.parametrize("kind", ["http", "streamable-http", None])
def test_code_calls_the_tools_of_a_server_in_python(tmp_path, kind, mode):
    async def main(url):
        entry = {"url": url, "allow": ["price", "find", "describe", "say-hello", "nap"]}
        if kind:
            entry["type"] = kind
        async with with_servers(tmp_path, mode=mode, shop=entry) as client:
            description = (await client.list_tools()).tools[0].description
            assert "tools.shop.price(name: str, currency: str = None) -> float" in description
            assert "tools.shop.die" not in description
            result = await run(client, CALLS)
            lines = text(result).splitlines()
            assert lines[:3] == [
                "3.5 2.5",
                "['tea', 'milk']",
                "{'text': 'tea costs 3.5'} Hello, Ada!",
            ], text(result)
            assert "there is no gold" in lines[3]
            assert lines[4].startswith("(name: str, currency: str")
            assert lines[5] == str(["awake"] * 6)
            calls = result.structured_content["tool_calls"]
            assert len(calls) == 12
            assert calls[0]["name"] == "shop.price"
            assert not calls[5]["ok"]

    with shop() as (url, _):
        alone(main(url))


@needs_openssl
@with_tls
def test_a_server_with_a_certificate_that_is_trusted_is_spoken_with_over_tls(tmp_path):
    async def main(url):
        code = "import tools; print(tools.shop.price('tea'))"
        arguments = stdio("--with", servers_file(tmp_path, shop={"url": url}))
        arguments.env["SSL_CERT_FILE"] = str(pair.cert)
        async with asyncio.timeout(TIME), Client(arguments) as client:
            assert text(await run(client, code)) == "3.5\n"

    pair = Pair(tmp_path, "one")
    with shop(pair=pair) as (url, _):
        alone(main(url))


def test_a_server_that_was_started_again_is_spoken_with_again(tmp_path):
    port = free_port()
    code = """
import tools
try:
    print(tools.shop.price("tea"))
except tools.ToolError as error:
    print(error)
"""

    async def main(url, process, again):
        async with with_servers(tmp_path, shop={"url": url}) as client:
            assert text(await run(client, code)) == "3.5\n"
            process.kill()
            process.wait()
            said = text(await run(client, code))
            assert "the server shop failed" in said, said
            assert "refused" in said, said
            again.enter_context(shop(port))
            assert text(await run(client, code)) == "3.5\n"

    with contextlib.ExitStack() as again, shop(port) as (url, process):
        alone(main(url, process, again))


def test_code_calls_a_belljar_with_its_key(tmp_path, server):
    code = """
import tools
session = tools.other.create_session(image="core")["session_id"]
print(tools.other.run_python("n = 41", session_id=session)["success"])
print(tools.other.run_python("print(n + 1)", session_id=session)["stdout"])
print(tools.other.delete_session(session))
"""

    async def main():
        entry = {"url": server.url + "/mcp", "headers": {"Authorization": "Bearer ${OTHER_KEY}"}}
        file = servers_file(tmp_path, other=entry)
        client = Client(stdio("--with", file, env={"OTHER_KEY": server.key}), mode="legacy")
        async with client:
            result = await run(client, code)
            assert text(result).split()[:2] == ["True", "42"], text(result)

    alone(main())


def refusal(tmp_path, env=None, **entry):
    file = servers_file(tmp_path, far=entry)
    started = time.monotonic()
    failed = subprocess.run(
        [COMMAND, "mcp", "--with", file],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=TIME,
        env={**os.environ, **(env or {})},
    )
    assert time.monotonic() - started < 30
    assert failed.returncode == 2, failed.stderr
    assert failed.stdout == ""
    return failed.stderr


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("dead", "far"),
        ("breaks", "far"),
        ("noise", "far"),
        ("denied", "HTTP 401"),
        ("page", "text/html"),
        ("nothing", "HTTP 404"),
        ("accepted", "sent no response"),
        ("elsewhere", "not followed"),
        ("round", "too many redirects"),
        ("wrong", "far"),
    ],
)
def test_a_server_that_cannot_be_had_is_told(tmp_path, hostile, path, says):
    entry = {"url": f"{hostile.url}/{path}", "headers": {"X-Key": "${SECRET}"}}
    told = refusal(tmp_path, env={"SECRET": "hush"}, **entry)
    assert says in told, told
    assert "hush" not in told
    assert all(headers["x-key"] == "hush" for _, _, headers in hostile.seen)


@needs_openssl
@with_tls
@pytest.mark.parametrize("vouched", ["nothing", "another"])
def test_a_certificate_that_nobody_vouches_for_is_told(tmp_path, vouched):
    trusted = Pair(tmp_path, "other").cert if vouched == "another" else tmp_path / "missing.pem"
    with shop(pair=Pair(tmp_path, "one")) as (url, _):
        told = refusal(tmp_path, env={"SSL_CERT_FILE": str(trusted)}, url=url)
        assert "certificate" in told, told


@pytest.mark.skipif("tls" in FEATURES, reason="this command speaks TLS")
def test_a_command_without_tls_says_how_it_is_had(tmp_path):
    assert "--features tls" in refusal(tmp_path, url="https://localhost/mcp")


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"url": "ftp://localhost/mcp"}, "ftp:// is not supported"),
        ({"url": "http://ada:hush@localhost/mcp"}, "headers"),
        ({"url": "http://localhost/sse", "type": "sse"}, "transport of 2024"),
        ({"url": "http://localhost/", "type": "websocket"}, "websocket"),
        ({"url": "http://localhost/", "headers": {"Host": "hush"}}, "reserved for the protocol"),
        ({"url": "http://localhost/", "headers": {"A": "hush\n"}}, None),
        ({"url": "http://localhost/", "headers": {"A": "hu\nsh"}}, "header a"),
        ({"url": "http://127.0.0.1:9/mcp"}, "refused"),
        ({"url": "http://no.such.host.invalid/mcp"}, "cannot be reached"),
    ],
)
def test_an_entry_that_cannot_be_is_told(tmp_path, entry, says):
    told = refusal(tmp_path, **entry)
    assert "far" in told
    assert "hush" not in told
    assert says is None or says in told, told


def test_a_server_that_lies_costs_its_own_calls(tmp_path, hostile):
    names = """
fine hang huge too_short too_long breaks_off no_json page accepted other_number elsewhere moved
round resumed forgotten refused flooded fine
"""
    code = f"""
import time, tools
for name in {names.split()!r}:
    started = time.monotonic()
    try:
        print(name, "answered", repr(getattr(tools.bad, name)())[:60])
    except tools.ToolError as error:
        print(name, error.kind, str(error).replace(chr(10), " "))
    if time.monotonic() - started > 4:
        print(name, "took", time.monotonic() - started)
"""
    expected = {
        "fine": "answered 'fine'",
        "hang": "timeout",
        "huge": "too_large",
        "too_short": "tool_error the server bad failed: the response ended early",
        "too_long": "answered",
        "breaks_off": "tool_error the server bad failed: the response ended early",
        "no_json": "tool_error the server bad failed: the response is not a valid message",
        "page": "text/html",
        "accepted": "sent no response",
        "other_number": "timeout",
        "elsewhere": "not followed",
        "moved": "not followed: /fine",
        "round": "too many redirects",
        "resumed": "answered 'went on'",
        "forgotten": "answered 'begun again in s2'",
        "refused": "HTTP 500",
        "flooded": "tool_error",
    }

    async def main():
        entry = {"url": hostile.url + "/mcp", "timeout": 2}
        async with with_servers(tmp_path, bad=entry) as client:
            result = await run(client, code, timeout=55)
            assert not result.is_error, text(result)
            lines = text(result).splitlines()
            assert len(lines) == len(names.split()), text(result)
            for line in lines:
                name, _, rest = line.partition(" ")
                assert expected[name] in rest, text(result)
                assert "\x1b" not in rest
        assert any(method == "DELETE" for method, _, _ in hostile.seen)

    alone(main())


@pytest.mark.parametrize("name", ["endless_json", "endless_events", "long_event"])
def test_a_server_that_sends_without_end_is_cut_off(tmp_path, hostile, name):
    code = f"""
import tools
for call in [tools.bad.{name}, tools.bad.{name}, tools.bad.fine]:
    try:
        print(call())
    except tools.ToolError as error:
        print(error)
"""

    async def main():
        entry = {"url": hostile.url + "/mcp", "timeout": 10}
        async with with_servers(tmp_path, bad=entry) as client:
            result = await run(client, code, timeout=50)
            assert not result.is_error, text(result)
            lines = text(result).splitlines()
            # Events are heard one by one, so that the time may be over before what may be sent is.
            ends = ("ended early", "cut off", "longer than", "timeout")
            assert all(any(end in line for end in ends) for line in lines[:2]), lines
            # What is too long is not read to its end.
            assert lines[2] == "fine" or "cut off" in lines[2], lines

    alone(main())


def test_the_end_waits_for_no_server(tmp_path, hostile):
    file = servers_file(tmp_path, bad={"url": hostile.url + "/mcp", "timeout": 50})
    client = Raw("--with", file)
    try:
        client.initialize()
        client.run(2, "import tools\ntools.bad.hang()", timeout=50)
        deadline = time.monotonic() + 20
        while not any(path == "/mcp" for _, path, _ in hostile.seen):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(1)
        started = time.monotonic()
        client.end(timeout=8)
        assert time.monotonic() - started < 5
    finally:
        client.process.kill()


def test_a_path_of_the_same_server_is_followed(tmp_path, hostile):
    async def main():
        async with with_servers(tmp_path, bad={"url": hostile.url + "/moved/mcp"}) as client:
            result = await run(client, "import tools\nprint(tools.bad.fine())")
            assert text(result) == "fine\n"
            record = json.dumps(result.structured_content["tool_calls"])
            assert "bad.fine" in record

    alone(main())
