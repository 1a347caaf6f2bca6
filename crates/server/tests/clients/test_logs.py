"""What a server writes into its log of requests, and what it never does."""

import json
import os
import re
import socket
import time

import conftest
import httpx
import pytest

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
MARK = "unheard_of_42"


class Logged:
    """A server, and what it has written to standard error."""

    def __init__(self, path, *arguments, **environment):
        self.path = path
        self.server = conftest.start(
            *arguments, stderr=path.open("w"), env={**os.environ, **environment}
        )
        self.client = httpx.Client(base_url=self.server.url, headers=self.server.headers, timeout=60)

    def text(self):
        return self.path.read_text()

    def lines(self):
        return [json.loads(line) for line in self.text().splitlines()]

    def answered(self, message="answered", **fields):
        """The line about the one request that has these."""
        for _ in range(100):
            lines = [line for line in self.lines() if line.get("message") == message]
            found = [line for line in lines if fields.items() <= line.items()]
            if found:
                assert len(found) == 1, found
                return found[0]
            time.sleep(0.05)
        raise AssertionError(f"nothing about {fields} in\n{self.text()}")


@pytest.fixture
def logged(tmp_path):
    servers = []

    def start(*arguments, **environment):
        servers.append(Logged(tmp_path / f"log{len(servers)}", *arguments, **environment))
        return servers[-1]

    yield start
    for one in servers:
        assert one.server.stop() == 0


def test_a_request_is_one_line_with_its_trace(logged):
    one = logged("--log-format", "json")
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-Id": "mine"}
    answer = one.client.post("/v1/runs", json={"code": "print(1)"}, headers=headers)
    line = one.answered(request_id="mine")
    assert (line["level"], line["bytes"]) == ("INFO", len(answer.content))
    assert line["duration_ms"] > 0 and line["timestamp"].endswith("Z")
    assert line["trace_id"] == TRACE and line["parent_id"] == PARENT
    assert (line["account"], line["client.address"]) == ("local", "127.0.0.1")
    assert (line["http.request.method"], line["url.path"], line["http.route"]) == ("POST", "/v1/runs", "/v1/runs")
    assert line["http.response.status_code"] == 200


def test_a_failure_has_its_code_and_a_new_trace_a_new_name(logged):
    one = logged("--log-format", "json")
    one.client.get("/v1/sessions/nobody", headers={"X-Request-Id": "a"})
    one.client.get("/v1/sessions", headers={"X-Request-Id": "b", "Authorization": "Bearer wrong"})
    one.client.get("/nothing?token=secret", headers={"X-Request-Id": "c"})
    lines = [one.answered(request_id=name) for name in "abc"]
    assert [line["error.type"] for line in lines] == ["session.not_found", "no_key", "no_route"]
    assert [line["http.response.status_code"] for line in lines] == [404, 401, 404]
    assert lines[0]["http.route"] == "/v1/sessions/{id}" and "account" not in lines[1]
    traces = {line["trace_id"] for line in lines}
    assert len(traces) == 3 and all(re.fullmatch("[0-9a-f]{32}", trace) for trace in traces)
    assert "secret" not in one.text()


def test_a_client_that_leaves_is_told_from_one_that_was_answered(logged):
    one = logged("--log-format", "json")
    body = json.dumps({"code": "while True: print(1)", "timeout": 30})
    with socket.create_connection(("127.0.0.1", one.server.port)) as stream:
        head = [
            "POST /v1/runs HTTP/1.1",
            "Host: localhost",
            "X-Request-Id: left",
            "Accept: text/event-stream",
            "Content-Type: application/json",
            f"Authorization: Bearer {one.server.key}",
            f"Content-Length: {len(body)}",
        ]
        stream.sendall("\r\n".join([*head, "", body]).encode())
        assert stream.recv(4096).startswith(b"HTTP/1.1 200")
    line = one.answered("the client disconnected early", request_id="left")
    assert line["http.response.status_code"] == 200


@pytest.mark.parametrize("wanted", [{}, {"BELLJAR_LOG": "trace"}])
def test_neither_code_nor_keys_are_logged(logged, wanted):
    one = logged("--log-format", "json", **wanted)
    key = one.server.key
    code = f"print('{MARK}')\nraise ValueError('{MARK}')"
    one.client.post("/v1/runs", json={"code": code, "files": {"a.txt": MARK}})
    one.client.post("/v1/runs", json={"code": code, MARK: 1})
    one.client.post("/v1/runs", json={"code": code}, headers={"Accept": "text/event-stream"})
    one.client.post("/v1/check", json={"code": code})
    one.client.post("/v1/batch", content=json.dumps({"code": code}))
    session = one.client.post("/v1/sessions", json={"code": f"x = '{MARK}'", "image": "core"}).json()["id"]
    one.client.post(f"/v1/sessions/{session}/runs", json={"code": code})
    one.client.post(f"/v1/sessions/{session}/complete", json={"code": MARK, "cursor_pos": 3})
    one.client.post("/run_code", json={"code": code, "language": "python"})
    one.client.post("/v1/sandbox/run", json={"code": code, "language": "python3"})
    one.client.post("/api/v2/execute", json={"language": "python", "version": "*", "files": [{"content": code}]})
    call = {"name": "run_python", "arguments": {"code": code}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    one.client.post("/mcp", json=message, headers={"Accept": "application/json, text/event-stream"})
    one.client.get(f"/api/kernels?token={key}", headers={"Authorization": ""})
    one.client.get("/v1/sessions", headers={"Authorization": f"Bearer {key}x"})
    one.client.get("/v1/sessions", headers={"X-API-Key": key, "X-Request-Id": "last"})
    one.answered(request_id="last")
    text = one.text()
    assert MARK not in text, [line for line in text.splitlines() if MARK in line]
    assert key not in text, [line for line in text.splitlines() if key in line]


def test_as_text_it_is_for_people_and_without_the_option_it_is_silent(logged):
    one = logged("--log-format", "text")
    one.client.get("/healthz")
    two = logged()
    two.client.get("/healthz")
    time.sleep(0.2)
    assert re.search(r"INFO request\{.*url\.path=\"/healthz\".*\}: .*answered", one.text()), one.text()
    assert two.text() == ""
