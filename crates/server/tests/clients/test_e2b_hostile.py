"""E2B's face and clients that mean harm: forged names, lengths that lie, paths that lead out, and
connections that end in the middle of everything."""

import gzip
import json
import random
import socket
import string
import struct
import threading
import time

import httpx
import pytest


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


@pytest.fixture
def made(server, http):
    """A sandbox as its maker knows it: id, and the headers for its data."""
    answer = http.post(
        "/v2/sandboxes", headers=key(server), json={"templateID": "base", "timeout": 120}
    )
    assert answer.status_code == 201
    sandbox = answer.json()
    headers = {"E2b-Sandbox-Id": sandbox["sandboxID"], "X-Access-Token": sandbox["envdAccessToken"]}
    yield sandbox["sandboxID"], headers
    http.delete(f"/sandboxes/{sandbox['sandboxID']}", headers=key(server))


def key(server):
    return {"X-API-Key": server.key}


def rpc(http, headers, method, **body):
    return http.post(f"/filesystem.Filesystem/{method}", headers=headers, json=body)


def run(http, headers, code):
    answer = http.post("/execute", headers=headers, json={"code": code})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_nobody_without_a_key(http):
    for method, path in [
        ("POST", "/v2/sandboxes"),
        ("POST", "/sandboxes"),
        ("GET", "/v2/sandboxes"),
        ("GET", "/sandboxes/x"),
        ("DELETE", "/sandboxes/x"),
        ("POST", "/sandboxes/x/pause"),
        ("POST", "/sandboxes/x/fork"),
        ("POST", "/sandboxes/x/timeout"),
        ("POST", "/sandboxes/x/snapshots"),
        ("GET", "/snapshots"),
        ("DELETE", "/templates/x"),
    ]:
        for headers in ({}, {"X-API-Key": "x"}, {"X-API-Key": "e2b_" + "0" * 40}):
            answer = http.request(method, path, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, 401), (method, path)


def test_forged_tokens(http, made):
    sandbox, headers = made
    for token in (
        None,
        "",
        "x",
        headers["X-Access-Token"][:-1],
        headers["X-Access-Token"] + "x",
        "\u017e".encode(),
    ):
        forged = {"E2b-Sandbox-Id": sandbox} | ({} if token is None else {"X-Access-Token": token})
        assert http.post("/execute", headers=forged, json={"code": "1"}).status_code == 401
        assert http.get("/files", headers=forged, params={"path": "a"}).status_code == 401
        assert rpc(http, forged, "ListDir", path="/").json()["code"] == "unauthenticated"
        start = http.post(
            "/process.Process/Start", headers=forged, content=envelope({"process": {"cmd": "ls"}})
        )
        assert "unauthenticated" in start.text
    # The id alone names a sandbox and opens nothing of it but its contexts, as with E2B.
    for signature in ("", "v1_", "v1_" + "A" * 43, "x" * 10_000):
        forged = http.get("/files", params={"path": "a", "signature": signature})
        assert forged.status_code == 401


def test_other_ids_are_of_nobody(http, made):
    _, headers = made
    for other in ("x", "a" * 20, "../../x", "%2e%2e", "a" * 10_000, "é".encode(), "\x7f"):
        answer = http.post(
            "/execute", headers=headers | {"E2b-Sandbox-Id": other}, json={"code": "1"}
        )
        assert answer.status_code in (400, 401), other
    for path in ("/sandboxes/%00", "/sandboxes/..%2f..%2fetc", "/sandboxes/" + "a" * 5000):
        answer = http.get(path, headers={"X-API-Key": "x"})
        assert answer.status_code in (400, 401, 404), path


def test_bodies_that_are_none(server, http, made):
    _, headers = made
    for content in (
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"code": 1}',
        b"\xff\xfe",
        b'{"code": "1", "env_vars": {"A": 1}}',
        b"[" * 100_000,
        b'{"code": "\\ud800"}',
    ):
        answer = http.post("/execute", headers=headers, content=content)
        assert answer.status_code == 400, content[:20]
        assert http.post("/v2/sandboxes", headers=key(server), content=content).status_code == 400
    for env in ({"A=B": "x"}, {"": "x"}, {"A": "\0"}):
        answer = http.post("/execute", headers=headers, json={"code": "1", "env_vars": env})
        assert answer.status_code == 400
        answer = http.post(
            "/v2/sandboxes", headers=key(server), json={"templateID": "base", "envVars": env}
        )
        assert answer.status_code == 400
    for timeout in (-1, 1.5, 10**30, "x"):
        answer = http.post(
            "/v2/sandboxes", headers=key(server), json={"templateID": "base", "timeout": timeout}
        )
        assert answer.status_code == 400
    for count in (0, -1, 101, 10**9):
        answer = http.post(f"/sandboxes/{made[0]}/fork", headers=key(server), json={"count": count})
        assert answer.status_code == 400
    both = {"code": "1", "context_id": "x", "language": "python"}
    assert http.post("/execute", headers=headers, json=both).status_code == 400
    assert run(http, headers, "1")[-1] == {"type": "end_of_execution"}


def test_paths(http, made):
    _, headers = made
    for path in (
        "/etc/passwd",
        "../../etc/passwd",
        "/home/user/../../../etc/passwd",
        "/proc/self/environ",
        "/",
    ):
        assert http.get("/files", headers=headers, params={"path": path}).status_code == 404
        assert (
            http.post("/files", headers=headers, params={"path": path}, content=b"x").status_code
            == 400
        )
        assert rpc(http, headers, "Stat", path=path).status_code == 404
        assert rpc(http, headers, "MakeDir", path=path + "/x").status_code == 400
        assert rpc(http, headers, "Move", source="a", destination=path).status_code == 400
        assert rpc(http, headers, "Remove", path=path).status_code == 404
    for path in ("a\0b", "\0", "a" * 300, "/".join(["d"] * 5000), "a/" + "b" * 100_000):
        for answer in (
            http.post("/filesystem.Filesystem/MakeDir", headers=headers, json={"path": path}),
            http.post("/filesystem.Filesystem/Stat", headers=headers, json={"path": path}),
        ):
            assert answer.status_code in (400, 404), path[:20]
    form = {"file": ("../../../etc/evil", b"x")}
    assert http.post("/files", headers=headers, files=form).status_code == 400
    form = {"file": ("", b"x")}
    assert http.post("/files", headers=headers, files=form).status_code == 400
    assert rpc(http, headers, "Remove", path="").status_code == 400
    assert rpc(http, headers, "ListDir", path="/home/user").json() == {"entries": []}


def test_links_lead_nowhere(http, made):
    _, headers = made
    run(
        http,
        headers,
        "import os\nos.symlink('../../..', 'up')\nos.symlink('../etc', 'etc')\nos.symlink('me', 'me')",
    )
    for path in ("etc/passwd", "up/etc/passwd", "me", "me/x"):
        assert http.get("/files", headers=headers, params={"path": path}).status_code == 400, path
        assert (
            http.post("/files", headers=headers, params={"path": path}, content=b"x").status_code
            == 400
        ), path


def test_what_the_code_leaves_is_no_page_of_the_server(http, made):
    _, headers = made
    http.post("/files", headers=headers, params={"path": "a.html"}, content=b"<script>1</script>")
    answer = http.get("/files", headers=headers, params={"path": "a.html"})
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_compressed_bombs_and_other_uploads(http, made):
    _, headers = made
    packed = headers | {"Content-Encoding": "gzip", "Content-Type": "application/octet-stream"}
    bomb = gzip.compress(b"\0" * (64 << 20))
    bomb *= 20  # members of one stream: 1.25 GiB, more than a sandbox may have
    answer = http.post("/files", headers=packed, params={"path": "bomb"}, content=bomb)
    assert answer.status_code == 507
    assert (
        http.post("/files", headers=packed, params={"path": "a"}, content=b"no gzip").status_code
        == 400
    )
    other = packed | {"Content-Encoding": "br"}
    assert http.post("/files", headers=other, params={"path": "a"}, content=b"x").status_code == 415
    form = headers | {"Content-Type": "multipart/form-data; boundary=x"}
    for body in (
        b"",
        b"--x--\r\n",
        b"--x\r\n\r\n",
        b'--x\r\nContent-Disposition: form-data; name="other"\r\n\r\n1\r\n--x--',
    ):
        assert (
            http.post("/files", headers=form, params={"path": "a"}, content=body).status_code == 400
        )
    many = [("file", (f"f{n}", b"")) for n in range(1001)]
    assert http.post("/files", headers=headers, files=many).status_code == 400
    assert rpc(http, headers, "ListDir", path=".").json() == {"entries": []}


def envelope(message, flags=0, length=None):
    body = json.dumps(message).encode()
    return struct.pack(">BI", flags, len(body) if length is None else length) + body


def test_envelopes_that_lie(http, made):
    _, headers = made
    start = {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "echo 1"]}}
    for content in (
        b"",
        b"\0",
        b"\0\0\0",
        envelope(start, length=2**32 - 1),
        envelope(start, length=10_000),
        envelope(start, length=3),
        envelope(start, flags=1),
        envelope(start, flags=2),
        envelope([]),
        envelope({"process": {"cmd": 1}}),
        b"\0" * 100,
        random.Random(1).randbytes(1000),
    ):
        answer = http.post("/process.Process/Start", headers=headers, content=content)
        flags, length = struct.unpack(">BI", answer.content[:5])
        assert (answer.status_code, flags, length) == (200, 2, len(answer.content) - 5)
        assert json.loads(answer.content[5:])["error"]["code"] == "invalid_argument", content[:20]
    # The server closes a connection on which it did not read all.
    once = headers | {"Connection": "close"}
    large = http.post("/process.Process/Start", headers=once, content=b"\0" * (5 << 20))
    assert b"invalid_argument" in large.content
    well = http.post("/process.Process/Start", headers=headers, content=envelope(start) + b"more")
    assert b"exit status 0" in well.content
    assert (
        http.post("/filesystem.Filesystem/Nothing", headers=headers, json={}).json()["code"]
        == "unimplemented"
    )
    assert (
        http.post("/process.Process/Nothing", headers=headers, json={}).json()["code"]
        == "unimplemented"
    )


def connect(server):
    stream = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    return stream


def head(method, path, headers, length):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def test_connections_that_end_in_the_middle(server, http, made):
    _, headers = made
    body = json.dumps(
        {"code": "import time\nn = 0\nwhile True:\n    n += 1\n    print(n)\n    time.sleep(0.01)"}
    ).encode()
    whole = head("POST", "/execute", headers, len(body)) + body
    chance = random.Random(2)
    ends = [0, 1, len(whole) - len(body) - 2, len(whole) - 1] + [
        chance.randrange(len(whole)) for _ in range(20)
    ]
    for end in ends:
        with connect(server) as stream:
            stream.sendall(whole[:end])
    for wait in (0, 0, 0.05, 0.2):
        with connect(server) as stream:
            stream.sendall(whole)
            time.sleep(wait)
            if wait:
                assert stream.recv(10).startswith(b"HTTP/1.1")
    started = time.monotonic()
    lines = run(http, headers, "n > 0")
    assert time.monotonic() - started < 10, "what nobody waits for goes on"
    assert any(line.get("text") == "True" for line in lines)
    upload = head("POST", "/files?path=cut", headers, 1000) + b"x" * 500
    with connect(server) as stream:
        stream.sendall(upload)
    assert rpc(http, headers, "Stat", path="cut").status_code == 404
    boundary = headers | {"Content-Type": "multipart/form-data; boundary=b"}
    part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="cut"\r\n\r\nhalf'
    with connect(server) as stream:
        stream.sendall(head("POST", "/files", boundary, 1000) + part)
    assert rpc(http, headers, "Stat", path="cut").status_code == 404
    command = envelope({"process": {"cmd": "python3", "args": ["-c", "while True: pass"]}})
    with connect(server) as stream:
        stream.sendall(head("POST", "/process.Process/Start", headers, len(command)) + command)
        assert stream.recv(10).startswith(b"HTTP/1.1")
    assert run(http, headers, "1")[-1] == {"type": "end_of_execution"}


def test_executions_that_wait_when_their_client_goes_do_not_begin(server, http, made):
    _, headers = made
    slow = threading.Thread(target=run, args=(http, headers, "import time; time.sleep(1.5)"))
    slow.start()
    time.sleep(0.5)
    body = b'{"code": "late = 1"}'
    for _ in range(5):
        with connect(server) as stream:
            stream.sendall(head("POST", "/execute", headers, len(body)) + body)
            time.sleep(0.05)
    slow.join()
    names = {line.get("name") for line in run(http, headers, "late")}
    assert "NameError" in names


def test_a_reader_that_stands_still(server, http, made):
    _, headers = made
    body = json.dumps({"code": "for n in range(3000): print('x' * 10_000)\ndone = 1"}).encode()
    with connect(server) as stream:
        stream.sendall(head("POST", "/execute", headers, len(body)) + body)
        assert stream.recv(100).startswith(b"HTTP/1.1")
        time.sleep(4)
    assert [line["text"] for line in run(http, headers, "1 + 1") if line["type"] == "result"] == [
        "2"
    ]


def test_many_half_open_streams(server, http, made):
    _, headers = made
    streams = []
    for _ in range(200):
        stream = connect(server)
        stream.sendall(head("POST", "/execute", headers, 100) + b'{"code": "')
        streams.append(stream)
    assert run(http, headers, "1")[-1] == {"type": "end_of_execution"}
    for stream in streams:
        stream.close()


def test_contexts_of_a_sandbox_are_bounded(http, made):
    _, headers = made
    answers = [http.post("/contexts", headers=headers, json={}).status_code for _ in range(40)]
    assert set(answers) == {200, 429}
    for cwd in ("/etc", "../..", "a\0"):
        assert http.post("/contexts", headers=headers, json={"cwd": cwd}).status_code == 400


def test_names_of_hosts(http, made):
    sandbox, headers = made
    token = headers["X-Access-Token"]
    for host in (f"49999-{sandbox}.x", f"49999-{sandbox.upper()}.x:1"):
        answer = http.post(
            "/execute", headers={"Host": host, "X-Access-Token": token}, json={"code": "1"}
        )
        assert answer.status_code == 200, host
    chance = random.Random(3)
    for _ in range(100):
        label = "".join(chance.choices(string.ascii_lowercase + string.digits + "-", k=26))
        answer = http.post("/execute", headers={"Host": f"49999-{label}.x"}, json={"code": "1"})
        assert answer.status_code in (401, 403, 421, 502)


def test_the_sandboxes_of_others(http, made, open_server):
    """Another account: on another server, because there is only one key here."""
    sandbox, headers = made
    with httpx.Client(base_url=open_server.url, timeout=60) as other:
        assert other.get(f"/sandboxes/{sandbox}").status_code == 404
        assert other.delete(f"/sandboxes/{sandbox}").status_code == 404
        assert other.post("/execute", headers=headers, json={"code": "1"}).status_code == 401
