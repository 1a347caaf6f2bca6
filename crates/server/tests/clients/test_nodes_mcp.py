"""MCP over HTTP on servers that share a store: requests go to one server after the other."""

import asyncio
import subprocess

import httpx2
from conftest import COMMAND
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_support import INITIALIZE, TIME, alone, headers_of, run, text
from nodes_support import nodes, store  # noqa: F401


class Turns(httpx2.AsyncBaseTransport):
    """A balancer without memory: each request goes to the next server."""

    def __init__(self, servers):
        self.servers, self.count, self.inner = servers, 0, httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request):
        server = self.servers[self.count % len(self.servers)]
        self.count += 1
        request.url = request.url.copy_with(host="127.0.0.1", port=server.port)
        request.headers["host"] = server.host
        return await self.inner.handle_async_request(request)

    async def aclose(self):
        await self.inner.aclose()


def over_all(nodes, servers=None):
    client = httpx2.AsyncClient(
        transport=Turns(servers or nodes.servers),
        headers=nodes.headers,
        timeout=httpx2.Timeout(TIME, read=TIME),
    )
    return streamable_http_client(nodes.servers[0].url + "/mcp", http_client=client)


def test_a_client_goes_on_whichever_server_it_reaches(nodes, mode):
    async def talk():
        async with Client(over_all(nodes), mode=mode) as client:
            made = await client.call_tool("create_session", {})
            session = made.structured_content["session_id"]
            for turn in range(7):
                code = f"n = {turn} if {turn} == 0 else n + 1\nn"
                ran = await run(client, code, session_id=session)
                assert not ran.is_error and text(ran).startswith(str(turn)), text(ran)
            written = await client.call_tool(
                "write_file", {"session_id": session, "path": "a.txt", "text": "hello"}
            )
            assert not written.is_error, text(written)
            ran = await run(client, "open('a.txt').read()", session_id=session)
            assert "hello" in text(ran)
            listed = await client.call_tool("list_sessions", {})
            assert session in text(listed)
            resources = (await client.list_resources()).resources
            [uri] = [one.uri for one in resources if session in str(one.uri)]
            assert (await client.read_resource(uri)).contents[0].text == "hello"
            fork = await client.call_tool("fork_session", {"session_id": session})
            fork = fork.structured_content["session_id"]
            assert text(await run(client, "n += 1; n", session_id=fork)).startswith("7")
            await client.call_tool("rewind_session", {"session_id": session, "to": 2})
            assert text(await run(client, "n", session_id=session)).startswith("1")
            assert [tool.name for tool in (await client.list_tools()).tools]
            for one in (session, fork):
                gone = await client.call_tool("delete_session", {"session_id": one})
                assert not gone.is_error
            for _ in nodes.servers:
                assert (await run(client, "n", session_id=session)).is_error

    async def in_time():
        async with asyncio.timeout(TIME):
            await talk()

    alone(in_time())


def test_a_conversation_outlives_its_server_and_says_what_was_lost(nodes):
    async def talk():
        servers = nodes.servers[:2]
        async with Client(over_all(nodes, servers), mode="legacy") as client:
            made = await client.call_tool("create_session", {})
            session = made.structured_content["session_id"]
            for _ in range(2):
                await run(client, "kept = 1", session_id=session)
            for _ in range(2):
                written = await client.call_tool("list_sessions", {})
                assert session in text(written)
            servers[0].process.kill()
            servers[:] = nodes.servers[1:]
            ran = await run(client, "kept", session_id=session)
            assert not ran.is_error and text(ran).startswith("1"), text(ran)

    alone(talk())


def post(server, message, **headers):
    return httpx2.post(server.url + "/mcp", json=message, headers=headers, timeout=TIME)


def test_a_conversation_is_its_owners_on_every_server(nodes):
    made = subprocess.run(
        [COMMAND, "key", "bob", "--keys", nodes.keys], capture_output=True, text=True, check=True
    )
    bob = {"Authorization": f"Bearer {made.stdout.strip()}"}
    nodes.start()
    mine, theirs = headers_of(nodes.servers[0]), headers_of(nodes.servers[0], **bob)
    mine.update(nodes.headers)
    answer = post(nodes.servers[0], INITIALIZE, **mine)
    session = {"Mcp-Session-Id": answer.headers["mcp-session-id"]}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert post(nodes.servers[1], initialized, **mine, **session).status_code == 202
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    for server in nodes.servers:
        assert post(server, ping, **mine, **session).status_code == 200
    assert post(nodes.servers[-1], ping, **theirs, **session).status_code == 404
    inner, _, signature = session["Mcp-Session-Id"].partition(".")
    forged = {"Mcp-Session-Id": f"{inner}.{'0' * 64}"}
    assert post(nodes.servers[1], ping, **mine, **forged).status_code == 404
    # A session that the client has ended cannot be continued on another server.
    nodes.start()
    url = nodes.servers[2].url + "/mcp"
    assert httpx2.delete(url, headers={**mine, **session}).is_success
    assert post(nodes.servers[-1], ping, **mine, **session).status_code == 404
