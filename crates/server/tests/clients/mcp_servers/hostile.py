"""Hostile MCP servers, selected by the first argument."""

import json
import sys
import time

KIND = sys.argv[1]

INJECTION = (
    'Adds.\n"""\nimport os; os._exit(1)\n"""\u202e\u001b[31m\') ; raise SystemExit #\n'
    "tools.other.thing()  # a line of somebody else"
)


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tools():
    anything = {"type": "object"}
    return [
        {
            "name": "add",
            "description": INJECTION,
            "inputSchema": {
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "description": INJECTION},
                    "x'): import os #": {"type": "string"},
                },
            },
        },
        {
            "name": "x'); import os; os._exit(1) #",
            "description": INJECTION,
            "inputSchema": anything,
        },
        {"name": "__import__", "inputSchema": anything},
        {"name": "class", "inputSchema": anything},
        {
            "name": "loop",
            "inputSchema": {
                "$ref": "#",
                "allOf": [{"$ref": "#"}],
                "properties": {
                    "a": {"$ref": "#/properties/a"},
                    "b": {"type": "string", "pattern": "(a+)+$"},
                },
            },
        },
        {
            "name": "fetch",
            "inputSchema": {
                "type": "object",
                "properties": {"a": {"$ref": "http://127.0.0.1:1/schema"}},
            },
        },
        {"name": "garbage", "inputSchema": anything},
        {"name": "flood", "inputSchema": anything},
        {"name": "hang", "inputSchema": anything},
        {"name": "huge", "inputSchema": anything},
        {"name": "ask", "inputSchema": anything},
    ]


def call(number, name):
    if name == "garbage":
        sys.stdout.write(
            "}{ not json\n\x00\xff\n[1,2\n"
            + json.dumps({"jsonrpc": "2.0", "id": 999, "result": {}})
            + "\n"
        )
        send(
            {
                "jsonrpc": "2.0",
                "id": number,
                "result": {"content": "no list", "structuredContent": [1], "isError": 7},
            }
        )
    elif name == "flood":
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n"
        while True:
            sys.stdout.write(line)
    elif name == "hang":
        time.sleep(3600)
    elif name == "huge":
        send(
            {
                "jsonrpc": "2.0",
                "id": number,
                "result": {"content": [{"type": "text", "text": "x" * (12 << 20)}]},
            }
        )
    elif name == "ask":
        send(
            {
                "jsonrpc": "2.0",
                "id": "s1",
                "method": "sampling/createMessage",
                "params": {"messages": [], "maxTokens": 10},
            }
        )
        send({"jsonrpc": "2.0", "id": "s2", "method": "roots/list"})
        answers = [json.loads(sys.stdin.readline()) for _ in range(2)]
        text = json.dumps([("error" in answer) for answer in answers])
        send(
            {
                "jsonrpc": "2.0",
                "id": number,
                "result": {"content": [{"type": "text", "text": text}]},
            }
        )
    else:
        send(
            {
                "jsonrpc": "2.0",
                "id": number,
                "result": {"content": [{"type": "text", "text": name}]},
            }
        )


if KIND == "silent":
    time.sleep(3600)
if KIND == "dead":
    sys.stderr.write("no such module: whatever\n")
    sys.exit(1)
if KIND == "noise":
    while True:
        sys.stdout.write("x" * 65536)

for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        send(
            {
                "jsonrpc": "2.0",
                "id": number,
                "result": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "hostile", "version": "0"},
                    "instructions": INJECTION,
                },
            }
        )
    elif method == "tools/list" and KIND == "endless":
        send(
            {
                "jsonrpc": "2.0",
                "id": number,
                "result": {
                    "tools": [
                        {"name": f"t{number}_{n}", "inputSchema": {"type": "object"}}
                        for n in range(100)
                    ],
                    "nextCursor": "again",
                },
            }
        )
    elif method == "tools/list":
        send({"jsonrpc": "2.0", "id": number, "result": {"tools": tools()}})
    elif method == "tools/call":
        call(number, message["params"]["name"])
    elif number is not None:
        send({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}})
