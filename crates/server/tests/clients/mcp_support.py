"""Shared parts of the MCP tests: clients over both transports, and a client for raw messages."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from conftest import COMMAND

TIME = 60


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


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def run(client, code, **arguments):
    return await client.call_tool("run_python", {"code": code, **arguments})


def alone(coroutine):
    return asyncio.run(coroutine)


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


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ")[1][0] != "Z"
    except OSError:
        return False
