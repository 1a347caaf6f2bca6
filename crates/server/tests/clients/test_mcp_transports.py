"""The two transports of MCP alone: who is let in, what is no message, and how everything ends."""

import contextlib
import signal
import time

import httpx2
import pytest
from mcp_support import INITIALIZE, Raw, headers_of

# Over HTTP only.


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
