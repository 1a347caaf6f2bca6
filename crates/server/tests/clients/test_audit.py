"""The audit log of a server, and the usage that `belljar key usage` sums up from it."""

import hashlib
import json
import re
import subprocess
import time

import httpx
import pytest
import websocket
from conftest import COMMAND, start

SECRET = "print('unheard of')"


def command(*arguments):
    return subprocess.run([COMMAND, *arguments], check=True, capture_output=True, text=True).stdout


class Audited:
    """A server with two accounts and an audit log."""

    def __init__(self, folder, *arguments):
        self.path, file = folder / "audit.jsonl", str(folder / "keys.toml")
        limit = ("--stored-bytes", "100000")
        made = [
            command("key", "create", name, "--keys", file, *more)
            for name, more in (("one", limit), ("two", ()))
        ]
        self.keys = [re.search(r"belljar_[0-9a-f]{64}", text).group() for text in made]
        listed = json.loads(command("key", "list", "--keys", file, "--json"))
        self.ids = {key["name"]: key["id"] for key in listed}
        self.server = start("--keys", file, "--audit-log", str(self.path), *arguments)

    def ask(self, account, method, path, **how):
        headers = {"authorization": f"Bearer {self.keys[account]}"}
        return httpx.request(method, self.server.url + path, headers=headers, timeout=60, **how)

    def records(self, **fields):
        """The records with these fields, of which there is at least one."""
        for _ in range(100):
            records = [json.loads(line) for line in self.path.read_text().splitlines()]
            found = [record for record in records if fields.items() <= record.items()]
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"no record of {fields} in\n{self.path.read_text()}")

    def record(self, **fields):
        (found,) = self.records(**fields)
        return found


@pytest.fixture(params=["none", "accounts"])
def audited(request, tmp_path):
    one = Audited(tmp_path, "--isolate", request.param)
    yield one
    if one.server.process.poll() is None:
        assert one.server.stop() == 0


def test_a_run_is_recorded_without_its_code(audited):
    body = {"code": SECRET, "image": "core", "timeout": 3, "memory_mb": 100}
    answer = audited.ask(0, "POST", "/v1/runs", json=body)
    assert answer.json()["success"]
    record = audited.record(event="run", account="one")
    assert record["code_sha256"] == hashlib.sha256(SECRET.encode()).hexdigest()
    assert (record["code_bytes"], record["image"]) == (len(SECRET), "core")
    assert (record["key"], record["work"]) == (audited.ids["one"], "run")
    assert (record["method"], record["route"]) == ("POST", "/v1/runs")
    assert (record["status"], record["client"]) == ("success", "127.0.0.1")
    assert record["limits"] == {"timeout_ms": 3000, "memory_bytes": 100 << 20}
    assert record["request"] == answer.headers["x-request-id"]
    assert record["fuel"] >= answer.json()["usage"]["fuel"] > 0
    assert record["wall_ms"] == answer.json()["usage"]["wall_ms"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["time"])
    text = audited.path.read_text()
    assert "unheard" not in text and not any(key in text for key in audited.keys)
    assert audited.path.stat().st_mode & 0o777 == 0o600


def test_every_end_of_a_run_is_recorded(audited):
    def run(code, **more):
        return audited.ask(1, "POST", "/v1/runs", json={"code": code, "image": "core", **more})

    run("1 / 0")
    audited.record(account="two", status="exception")
    run("while True: pass", timeout=0.2)
    audited.record(account="two", status="timeout")
    assert run("1", timeout=1e9).status_code == 422
    assert audited.record(account="two", status="refused")["error"] == "refused"
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{audited.server.url}/v1/runs",
            json={"code": "import time; time.sleep(50)", "image": "core", "timeout": 60},
            headers={"x-api-key": audited.keys[1]},
            timeout=1,
        )
    audited.record(account="two", status="interrupted")
    assert not [one for one in audited.records(event="run") if one["account"] == "one"]


def test_sessions_are_recorded_from_beginning_to_end(audited):
    body = {"image": "core", "code": "x = 1", "lease": {"seconds": 100}}
    session = audited.ask(0, "POST", "/v1/sessions", json=body).json()["id"]
    fork = audited.ask(0, "POST", f"/v1/sessions/{session}/fork").json()["id"]
    audited.ask(0, "POST", f"/v1/sessions/{session}/runs", json={"code": "x"})
    audited.ask(0, "POST", f"/v1/sessions/{session}/evaluate", json={"expressions": {"a": "x"}})
    audited.ask(0, "DELETE", f"/v1/sessions/{fork}")
    audited.ask(0, "PATCH", f"/v1/sessions/{session}", json={"lease_seconds": 0})
    made = audited.record(event="session.created", session=session)
    assert (made["account"], made["key"], made["image"]) == ("one", audited.ids["one"], "core")
    assert audited.record(event="session.created", session=fork)["parent"] == session
    assert audited.record(event="run", session=session)["status"] == "success"
    start = audited.record(event="run", work="start")
    assert start["code_sha256"] == hashlib.sha256(b"x = 1").hexdigest()
    audited.record(event="run", work="evaluate", status="done")
    for gone in (fork, session):
        assert audited.record(event="session.closed", session=gone)["account"] == "one"


def test_refused_keys_are_recorded_and_cannot_fill_the_disk(audited):
    revoked = "belljar_" + "0" * 64
    identity = hashlib.sha256(revoked.encode()).hexdigest()[:8]
    with httpx.Client(base_url=audited.server.url, headers={"x-api-key": revoked}) as client:
        for _ in range(300):
            assert client.get("/v1/images").status_code == 401
        time.sleep(1.1)
        client.get("/v1/images")
    records = audited.records(event="key.refused")
    assert sum(1 + record.get("count", 0) for record in records) == 301
    assert {record["key"] for record in records} == {identity}
    assert {record["client"] for record in records} == {"127.0.0.1"}
    assert "account" not in records[0] and len(records) < 301
    assert revoked not in audited.path.read_text()


def test_a_client_cannot_name_another_key(audited):
    named = {"x-belljar-key-id": audited.ids["two"]}
    httpx.post(
        f"{audited.server.url}/v1/runs",
        json={"code": "1", "image": "core"},
        headers={"x-api-key": audited.keys[0], **named},
        timeout=60,
    )
    assert audited.record(event="run")["key"] == audited.ids["one"]
    # A front also takes Jupyter's key from the query if that in the header is wrong.
    answer = httpx.post(
        f"{audited.server.url}/api/kernels?token={audited.keys[0]}",
        json={"name": "python3"},
        headers={"x-api-key": "belljar_wrong", **named},
        timeout=60,
    )
    if answer.is_success:
        assert audited.record(event="session.created")["key"] == audited.ids["one"]
    else:
        assert audited.record(event="key.refused")["key"] not in audited.ids.values()


def test_other_interfaces_are_recorded_too(audited):
    audited.ask(0, "POST", "/api/kernels", json={"name": "python3"})
    audited.record(event="session.created", account="one", route="/api/kernels")


def test_a_cell_has_the_request_of_its_client(audited):
    opened = {"x-request-id": "opened-it"}
    headers = {"authorization": f"Bearer {audited.keys[0]}"}
    url = f"{audited.server.url}/api/kernels"
    made = httpx.post(url, headers={**headers, **opened}, json={"name": "python3"}, timeout=60)
    assert audited.record(event="session.created")["request"] == "opened-it"
    channels = f"ws{url.removeprefix('http')}/{made.json()['id']}/channels"
    for client in ("first", "second"):
        names = [f"{name}: {value}" for name, value in headers.items()]
        connection = websocket.create_connection(
            channels, header=[*names, f"x-request-id: {client}"], timeout=30
        )
        header = {"msg_id": client, "msg_type": "execute_request", "session": client}
        content = {"code": "print(1)", "silent": False, "allow_stdin": False}
        message = {
            "channel": "shell",
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
        }
        connection.send(json.dumps(message))
        record = audited.record(event="run", work="run", request=client)
        assert record["route"] == "/api/kernels/{id}/channels"
        assert (record["key"], record["account"]) == (audited.ids["one"], "one")
        connection.close()


def test_work_in_a_sandbox_has_its_own_request(audited):
    made = audited.ask(0, "POST", "/sandboxes", json={"templateID": "core"}).json()
    headers = {
        "e2b-sandbox-id": made["sandboxID"],
        "x-access-token": made["envdAccessToken"],
        "x-request-id": "its-own",
    }
    url = audited.server.url + "/execute"
    answer = httpx.post(url, headers=headers, json={"code": "print(1)"}, timeout=60)
    assert answer.status_code == 200, answer.text
    record = audited.record(event="run", work="run", account="one")
    assert (record["request"], record["route"]) == ("its-own", "/execute")
    assert record["key"] == audited.ids["one"]


def test_usage_is_summed_up(audited):
    writes = "open('a', 'w').write('x' * 1000)"
    for account, code in ((0, writes), (0, "1"), (1, writes)):
        audited.ask(account, "POST", "/v1/runs", json={"code": code, "image": "core"})
    audited.ask(1, "POST", "/v1/sessions", json={"image": "core"})
    assert audited.server.stop() == 0
    events = [json.loads(line)["event"] for line in audited.path.read_text().splitlines()]
    assert (events[0], events[-1]) == ("server.started", "server.stopped")
    path = str(audited.path)
    usage = json.loads(command("key", "usage", "--audit-log", path, "--json"))
    one, two = usage["keys"]
    assert (one["account"], one["key"], one["runs"]) == ("one", audited.ids["one"], 2)
    assert (two["account"], two["runs"], two["sessions"]) == ("two", 1, 1)
    # Counted where there is a limit, as they were at the last run.
    assert 1000 <= one["stored_bytes"] < 100_000 and two["stored_bytes"] is None
    fuel = [json.loads(line).get("fuel", 0) for line in audited.path.read_text().splitlines()]
    assert one["fuel"] + two["fuel"] == sum(fuel) > 0
    assert (usage["lost_records"], usage["invalid_lines"]) == (0, 0)
    table = command("key", "usage", "--audit-log", path)
    assert re.search(rf"^one +{audited.ids['one']} +2 +0 ", table, re.M), table
    later = command("key", "usage", "--audit-log", path, "--since", "2999-01-01", "--json")
    assert json.loads(later)["keys"] == []


@pytest.mark.parametrize("isolate", ["none", "accounts"])
def test_a_full_disk_stops_no_run_and_is_told(isolate, tmp_path):
    log = tmp_path / "stderr"
    server = start(
        "--audit-log", "/dev/full", "--isolate", isolate, "--log-format", "json",
        stderr=log.open("w"),
    )  # fmt: skip
    for _ in range(3):
        body = {"code": "print(1)", "image": "core"}
        ran = httpx.post(f"{server.url}/v1/runs", json=body, headers=server.headers, timeout=60)
        assert ran.json()["stdout"] == "1\n"
    page = httpx.get(f"{server.url}/metrics", headers=server.headers).text
    lost = re.search(r"^belljar_audit_lost_records(?:\{.*\})? (\d+)$", page, re.M)
    assert lost and int(lost.group(1)) >= 3, page
    assert server.stop() == 0
    told = [line for line in log.read_text().splitlines() if "cannot write to the audit log" in line]
    assert len(told) == 1 and "No space left" in told[0]


def test_records_go_to_standard_error(tmp_path):
    log = tmp_path / "stderr"
    server = start("--audit-log", "-", stderr=log.open("w"))
    body = {"code": SECRET, "image": "core"}
    httpx.post(f"{server.url}/v1/runs", json=body, headers=server.headers, timeout=60)
    assert server.stop() == 0
    events = [json.loads(line)["event"] for line in log.read_text().splitlines() if line[:1] == "{"]
    assert events == ["server.started", "run", "server.stopped"]
