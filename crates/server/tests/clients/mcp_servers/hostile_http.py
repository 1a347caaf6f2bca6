"""A hostile MCP server over HTTP. The path and the tool select its behaviour."""

import contextlib
import json
import socketserver
import threading
import time

TOOLS = [
    "fine",
    "hang",
    "endless_json",
    "endless_events",
    "long_event",
    "huge",
    "too_short",
    "too_long",
    "breaks_off",
    "no_json",
    "page",
    "accepted",
    "other_number",
    "elsewhere",
    "moved",
    "round",
    "resumed",
    "forgotten",
    "refused",
    "flooded",
]


class Handler(socketserver.StreamRequestHandler):
    """One connection, with as many requests as come."""

    def handle(self):
        with contextlib.suppress(OSError, ValueError):
            while self.one():
                pass

    def one(self):
        line = self.rfile.readline().decode()
        if not line:
            return False
        method, path, _ = line.split(" ")
        headers = {}
        while (line := self.rfile.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        self.server.seen.append((method, path, headers))
        message = json.loads(body) if body else {}
        return self.answer(method, path, headers, message)

    def send(self, status, body=b"", **headers):
        head = [f"HTTP/1.1 {status} X"]
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"content-length": str(len(body)), "content-type": "application/json", **headers}
        head += [f"{name}: {value}" for name, value in given.items() if value]
        self.wfile.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        self.wfile.flush()
        return True

    def result(self, message, result, **headers):
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return self.send(200, json.dumps(answer).encode(), **headers)

    def text(self, message, text):
        return self.result(message, {"content": [{"type": "text", "text": text}]})

    def events(self, *, length=None):
        """The head of a stream of events, which ends with the connection."""
        return self.send(200, content_type="text/event-stream", content_length=length)

    def answer(self, method, path, headers, message):
        what = path.strip("/").split("/")[0]
        if what in AT_ONCE:
            return AT_ONCE[what](self)
        if what == "moved":
            return self.send(307, location="/" + "/".join(path.strip("/").split("/")[1:]))
        if method == "GET":
            return self.stream(headers)
        if method == "DELETE":
            return self.send(200)
        name = message.get("method")
        if name == "initialize":
            self.server.sessions += 1
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "0"},
            }
            return self.result(message, result, mcp_session_id=f"s{self.server.sessions}")
        if name == "tools/list":
            tools = [{"name": tool, "inputSchema": {"type": "object"}} for tool in TOOLS]
            return self.result(message, {"tools": tools})
        if name == "tools/call":
            return getattr(self, "call_" + message["params"]["name"])(message, headers)
        return self.send(202)

    def stream(self, headers):
        if "last-event-id" in headers:
            self.events()
            number = headers["last-event-id"].split("-")[1]
            answer = {"content": [{"type": "text", "text": "went on"}]}
            answer = json.dumps({"jsonrpc": "2.0", "id": int(number), "result": answer})
            self.wfile.write(f"id: b\ndata: {answer}\n\n".encode())
            return False
        return self.send(405)

    def call_fine(self, message, headers):
        return self.text(message, "fine")

    def call_hang(self, message, headers):
        time.sleep(600)

    def call_endless_json(self, message, headers):
        self.send(200, transfer_encoding="chunked", content_length=None)
        while True:
            self.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")

    def call_endless_events(self, message, headers):
        self.events()
        ping = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'
        while True:
            self.wfile.write(ping * 1000)

    def call_long_event(self, message, headers):
        self.events()
        while True:
            self.wfile.write(b"data: " + b"x" * 65536 + b"\n")

    def call_huge(self, message, headers):
        return self.text(message, "x" * (12 << 20))

    def call_too_short(self, message, headers):
        self.send(200, b'{"jsonrpc"', content_length="1000")
        return False

    def call_too_long(self, message, headers):
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}
        body = json.dumps(answer).encode()
        return self.send(200, body + b"HTTP/1.1 200 X\r\n\r\n", content_length=str(len(body)))

    def call_breaks_off(self, message, headers):
        self.events()
        self.wfile.write(b'data: {"jsonrpc": "2.0", "id": ')
        return False

    def call_no_json(self, message, headers):
        return self.send(200, b"}{" * 100)

    def call_page(self, message, headers):
        return self.send(200, b"<h1>Hello</h1>", content_type="text/html")

    def call_accepted(self, message, headers):
        return self.send(202, content_type=None)

    def call_other_number(self, message, headers):
        return self.result({"id": 987654}, {"content": []})

    def call_elsewhere(self, message, headers):
        return self.send(307, location=self.server.elsewhere)

    def call_moved(self, message, headers):
        return self.send(302, location="/fine")

    def call_round(self, message, headers):
        return self.send(307, location="/round")

    def call_resumed(self, message, headers):
        self.events()
        self.wfile.write(f"id: a-{message['id']}\nretry: 1\ndata:\n\n".encode())
        return False

    def call_forgotten(self, message, headers):
        if headers.get("mcp-session-id") == "s1":
            return self.send(404)
        return self.text(message, "begun again in " + headers["mcp-session-id"])

    def call_refused(self, message, headers):
        return self.send(500, b"\x1b[31m" + b"secret" * 100)

    def call_flooded(self, message, headers):
        self.wfile.write(b"HTTP/1.1 200 X\r\n")
        while True:
            self.wfile.write(b"a: " + b"b" * 1000 + b"\r\n")


def breaks(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-le")
    return False


AT_ONCE = {
    "dead": lambda handler: False,
    "breaks": breaks,
    "noise": lambda handler: handler.wfile.write(b"\0" * 100) and False,
    "denied": lambda handler: handler.send(401, b"no", www_authenticate="Bearer"),
    "page": lambda handler: handler.send(200, b"<h1>", content_type="text/html"),
    "nothing": lambda handler: handler.send(404, b"not here"),
    "accepted": lambda handler: handler.send(202, content_type=None),
    "elsewhere": lambda handler: handler.send(308, location=handler.server.elsewhere),
    "round": lambda handler: handler.send(307, location="/round"),
    "wrong": lambda handler: handler.send(200, b'{"jsonrpc": "2.0", "id": 0, "result": 5}'),
}


class Server(socketserver.ThreadingTCPServer):
    """The server, in threads of this process. `seen` is what it was asked."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, elsewhere="http://127.0.0.1:9/"):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = []
        self.sessions = 0
        self.elsewhere = elsewhere

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    @classmethod
    @contextlib.contextmanager
    def started(cls, *arguments):
        with cls(*arguments) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            yield server
            server.shutdown()
