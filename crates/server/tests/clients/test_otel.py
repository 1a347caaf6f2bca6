"""Traces by OTLP, as a collector gets them. For a command with the feature `otel`."""

import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import conftest
import httpx
import pytest

FEATURES = os.environ.get("BELLJAR_FEATURES", "").split(",")

pytestmark = pytest.mark.skipif("otel" not in FEATURES, reason="BELLJAR_FEATURES names no otel")

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def fields(message):
    """The fields of a message in Protocol Buffers: numbers, and bytes for all that has a length."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            value = varint()
        else:
            length = {1: 8, 5: 4}.get(kind) or varint()
            value = message[at : at + length]
            at += length
        found.setdefault(tag >> 3, []).append(value)
    return found


def attributes(messages):
    """Of `KeyValue`s: texts and numbers."""
    read = {}
    for pair in map(fields, messages):
        value = fields(pair[2][0])
        read[pair[1][0].decode()] = value[1][0].decode() if 1 in value else next(iter(value.values()))[0]
    return read


class Collector:
    """Takes what an exporter sends."""

    def __init__(self):
        self.spans, self.requests = [], []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append((self.path, self.headers))
                for resource_spans in map(fields, fields(body)[1]):
                    resource = attributes(fields(resource_spans[1][0])[1])
                    for scope_spans in map(fields, resource_spans[2]):
                        collector.spans += [collector.read(span, resource) for span in scope_spans[2]]
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def read(self, span, resource):
        span = fields(span)
        return {
            "trace": span[1][0].hex(),
            "id": span[2][0].hex(),
            "parent": span.get(4, [b""])[0].hex(),
            "name": span[5][0].decode(),
            "kind": span[6][0],
            "resource": resource,
            "attributes": attributes(span.get(9, [])),
            "status": fields(span[15][0]).get(3, [0])[0] if 15 in span else 0,
            "time": int.from_bytes(span[8][0], "little") - int.from_bytes(span[7][0], "little"),
        }

    def wait(self, count):
        deadline = time.monotonic() + 60
        while len(self.spans) < count and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.spans


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.server.shutdown()


def start(collector, **more):
    environment = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-of=ours",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        **more,
    }
    return conftest.start("--no-auth", env=environment)


def test_a_request_and_its_run_are_spans_of_the_callers_trace(collector):
    server = start(collector, OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test")
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    httpx.post(f"{server.url}/v1/runs", json={"code": "print('unheard')"}, headers=headers, timeout=60)
    spans = {span["name"]: span for span in collector.wait(2)}
    request, run = spans["POST /v1/runs"], spans["run"]
    assert (request["trace"], request["parent"], request["kind"]) == (TRACE, PARENT, 2)
    assert (run["trace"], run["parent"]) == (TRACE, request["id"])
    assert 0 < run["time"] <= request["time"]
    attributes = request["attributes"]
    assert attributes["http.request.method"] == "POST" and attributes["http.route"] == "/v1/runs"
    assert attributes["http.response.status_code"] == 200 and attributes["url.path"] == "/v1/runs"
    assert attributes["trace_id"] == TRACE and attributes["account"] == "local"
    assert request["resource"]["service.name"] == "belljar"
    assert request["resource"]["deployment.environment.name"] == "test"
    path, sent = collector.requests[0]
    assert (path, sent["Content-Type"], sent["x-of"]) == ("/v1/traces", "application/x-protobuf", "ours")
    assert "unheard" not in str(spans)
    assert server.stop() == 0


def test_what_was_not_sent_is_sent_at_the_end(collector):
    server = start(collector, OTEL_BSP_SCHEDULE_DELAY="600000", OTEL_SERVICE_NAME="mine")
    httpx.get(f"{server.url}/nothing", timeout=60)
    assert collector.spans == []
    assert server.stop() == 0
    (span,) = collector.spans
    assert span["resource"]["service.name"] == "mine"
    assert (span["attributes"]["error.type"], span["parent"]) == ("no_route", "")


@pytest.mark.parametrize("off", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}])
def test_it_is_off_where_the_environment_says_so(collector, off):
    server = start(collector, **off)
    assert httpx.get(f"{server.url}/readyz", timeout=60).text.startswith("ready\n")
    assert server.stop() == 0
    assert collector.requests == []


def test_a_collector_that_is_gone_is_no_matter(collector):
    collector.server.server_close()
    server = start(collector, OTEL_EXPORTER_OTLP_TIMEOUT="500")
    assert httpx.get(f"{server.url}/readyz", timeout=60).text.startswith("ready\n")
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "otlp"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:1", "http://"),
    ],
)
def test_an_unsupported_value_is_reported(collector, name, value, known):
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, name: value}
    command = [conftest.COMMAND, "serve", "--listen", "127.0.0.1:0"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    assert f'{name} is "{value}", but only {known} is supported' in " ".join(ended.stderr.split())
