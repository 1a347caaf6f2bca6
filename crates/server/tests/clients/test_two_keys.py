"""Two people on one server, by E2B's own SDK and that of MCP: what is the one's is not there for
the other, and no answer tells it from what never was."""

import asyncio
import re
import subprocess
from dataclasses import replace

import httpx
import httpx2
import pytest
from e2b import NotFoundException, SandboxNotFoundException
from e2b_code_interpreter import Sandbox
from mcp import Client, MCPError

from conftest import COMMAND, start
from mcp_support import INITIALIZE, TIME, alone, headers_of, over_http, run, text

NEVER = "a" * 20


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """One server as Ada and as Bob reach it."""
    file = tmp_path_factory.mktemp("keys") / "keys.toml"
    keys = []
    for name in ("ada", "bob"):
        made = subprocess.run(
            [COMMAND, "key", name, "--keys", str(file)], check=True, capture_output=True, text=True
        )
        keys.append(re.search(r"belljar_[0-9a-f]{64}", made.stdout).group())
    started = start("--keys", str(file))
    assert all(started.key != key for key in keys)
    yield [replace(started, key=key) for key in keys]
    assert started.stop() == 0


# E2B.


def options(person):
    return {"api_key": person.key, "api_url": person.url, "sandbox_url": person.url}


@pytest.fixture
def hers(people):
    """A sandbox of Ada's, with a file, a context and a snapshot."""
    made = Sandbox.create(timeout=120, **options(people[0]))
    made.files.write("secret.txt", "Ada's")
    yield made
    made.kill()


def told(call):
    """How a call fails: kind and text."""
    with pytest.raises(Exception) as failure:  # noqa: PT011
        call()
    return type(failure.value), str(failure.value)


def same_as_never(call, real):
    """A call about something of hers fails as one about what never was."""
    kind, said = told(lambda: call(real))
    never_kind, never = told(lambda: call(NEVER))
    assert (kind, said.replace(real, NEVER)) == (never_kind, never)
    return kind


def test_a_sandbox_is_its_makers(people, hers):
    ada, bob = people
    theirs = options(bob)
    for call in [
        lambda one: Sandbox.connect(one, **theirs),
        lambda one: Sandbox.get_info(one, **theirs),
        lambda one: Sandbox.set_timeout(one, 10, **theirs),
        lambda one: Sandbox.pause(one, **theirs),
        lambda one: Sandbox.fork(one, **theirs),
        lambda one: Sandbox.create_snapshot(one, **theirs),
        lambda one: Sandbox.get_metrics(one, **theirs),
    ]:
        kind = same_as_never(call, hers.sandbox_id)
        assert issubclass(kind, (NotFoundException, SandboxNotFoundException)), kind
    assert not Sandbox.kill(hers.sandbox_id, **theirs)
    assert Sandbox.list(**theirs).next_items() == []
    assert [one.sandbox_id for one in Sandbox.list(**options(ada)).next_items()] == [
        hers.sandbox_id
    ]
    assert hers.run_code("open('secret.txt').read()").text == "Ada's"


def test_a_snapshot_is_its_makers(people, hers):
    ada, bob = people
    named = hers.create_snapshot(name="mine")
    snapshot = hers.create_snapshot()
    for one in (named.snapshot_id, "mine", snapshot.snapshot_id):
        kind, said = told(lambda one=one: Sandbox.create(one, timeout=10, **options(bob)))
        never_kind, never = told(lambda: Sandbox.create(NEVER, timeout=10, **options(bob)))
        assert kind is never_kind
        assert said.replace(one, NEVER) == never
        assert not Sandbox.delete_snapshot(one, **options(bob))
    assert Sandbox.list_snapshots(**options(bob)).next_items() == []
    # The same name of another is another snapshot.
    his = Sandbox.create(timeout=60, **options(bob))
    his.files.write("secret.txt", "Bob's")
    his.create_snapshot(name="mine")
    for person, content in ((ada, "Ada's"), (bob, "Bob's")):
        again = Sandbox.create("mine", timeout=60, **options(person))
        assert again.files.read("secret.txt") == content
        again.kill()
        assert Sandbox.delete_snapshot("mine", **options(person))
    assert Sandbox.delete_snapshot(snapshot.snapshot_id, **options(ada))
    his.kill()


def test_a_token_is_of_one_sandbox(people, hers):
    """What is in a sandbox needs its token: another's is told as little of it as of none at all."""
    _, bob = people
    his = Sandbox.create(timeout=60, **options(bob))
    token = his.connection_config.sandbox_headers["X-Access-Token"]
    calls = [
        ("POST", "/execute", {"json": {"code": "1"}}),
        ("GET", "/files", {"params": {"path": "secret.txt"}}),
        ("POST", "/files", {"params": {"path": "x"}, "content": b"x"}),
        ("POST", "/filesystem.Filesystem/ListDir", {"json": {"path": "/home/user"}}),
        ("POST", "/filesystem.Filesystem/Stat", {"json": {"path": "secret.txt"}}),
        ("POST", "/process.Process/List", {"json": {}}),
    ]
    with httpx.Client(base_url=bob.url, timeout=TIME) as http:
        for method, path, body in calls:
            answers = []
            for sandbox in (hers.sandbox_id, NEVER):
                for shown in (token, "", "x"):
                    # The key does not belong to the sandbox, either.
                    headers = {"E2b-Sandbox-Id": sandbox, "X-Access-Token": shown, **bob.headers}
                    answer = http.request(method, path, headers=headers, **body)
                    answers.append((answer.status_code, answer.content))
            assert len(set(answers)) == 1, (path, answers)
            assert answers[0][0] == 401, path
        # Nor does a URL signed with another token give access.
        params = {"path": "secret.txt", "signature": "v1_" + "A" * 43}
        for sandbox in (hers.sandbox_id, NEVER):
            headers = {"E2b-Sandbox-Id": sandbox}
            assert http.get("/files", params=params, headers=headers).status_code == 401
        answer = http.get(
            "/files", params={"path": "secret.txt"}, headers={"X-Access-Token": token}
        )
        assert answer.status_code == 404
        mine = {"E2b-Sandbox-Id": his.sandbox_id, "X-Access-Token": token}
        assert http.get("/files", params={"path": "x"}, headers=mine).status_code == 404
        # A token stays right when its sandbox has gone, and says so.
        his.kill()
        answer = http.post("/execute", headers=mine, json={"code": "1"})
        assert (answer.status_code, "not found" in answer.text) == (502, True)


def test_a_context_is_of_one_sandbox(people, hers):
    _, bob = people
    his = Sandbox.create(timeout=60, **options(bob))
    context = hers.create_code_context()
    same_as_never(lambda one: his.run_code("1", context=one), context.id)
    same_as_never(lambda one: his.restart_code_context(one), context.id)
    same_as_never(lambda one: his.remove_code_context(one), context.id)
    assert context.id not in [one.id for one in his.list_code_contexts()]
    his.kill()


def test_a_request_is_repeated_by_its_sender_only(people):
    ada, bob = people
    hers = Sandbox.create(idempotency_key="same", **options(ada))
    his = Sandbox.create(idempotency_key="same", **options(bob))
    again = Sandbox.create(idempotency_key="same", **options(ada))
    assert hers.sandbox_id == again.sandbox_id != his.sandbox_id
    hers.kill()
    his.kill()


# MCP.


def test_sessions_and_files_are_their_makers(people, mode):
    ada, bob = people

    async def main():
        async with (
            asyncio.timeout(TIME),
            Client(over_http(ada), mode=mode) as hers,
            Client(over_http(bob), mode=mode) as his,
        ):

            async def call(client, name, **arguments):
                return await client.call_tool(name, arguments)

            session = (await call(hers, "create_session", image="core")).structured_content
            session = session["session_id"]
            await run(hers, "n = 1", session_id=session)
            await call(hers, "write_file", session_id=session, path="a", text="Ada's")
            links = (await run(hers, "open('b', 'w').write('Ada')")).content
            file = next(block.uri for block in links if block.type == "resource_link")
            of_session = f"belljar://sessions/{session}/files/a"

            never = re.sub(r"[0-9a-f]", "0", session)
            for name, arguments in [
                ("run_python", {"code": "1"}),
                ("fork_session", {}),
                ("rewind_session", {"to": 0}),
                ("write_file", {"path": "a", "text": "x"}),
                ("delete_session", {}),
            ]:
                answers = []
                for one in (session, never):
                    result = await call(his, name, session_id=one, **arguments)
                    assert result.is_error, name
                    answers.append(text(result).replace(one, "ID"))
                assert answers[0] == answers[1], name
            listed = (await call(his, "list_sessions")).structured_content["sessions"]
            assert session not in [one["session_id"] for one in listed]

            for uri, gone in [
                (file, re.sub(r"runs/[0-9a-f]+", "runs/" + "0" * 32, file)),
                (of_session, of_session.replace(session, never)),
            ]:
                answers = []
                for one in (uri, gone):
                    with pytest.raises(MCPError) as failure:
                        await his.read_resource(one)
                    error = failure.value.error
                    answers.append((error.code, error.message.replace(one, "URI")))
                    result = await run(his, "1", files=[{"path": "x", "uri": one}])
                    assert result.is_error
                    answers.append(text(result).replace(one, "URI"))
                assert answers[:2] == answers[2:]
            resources = [one.uri for one in (await his.list_resources()).resources]
            assert file not in resources
            assert not any(session in uri for uri in resources)

            assert (await hers.read_resource(of_session)).contents[0].text == "Ada's"
            assert (await hers.read_resource(file)).contents[0].text == "Ada"
            assert text(await run(hers, "n", session_id=session)) == "1\n"
            await call(hers, "delete_session", session_id=session)

    alone(main())


def test_a_session_of_the_protocol_is_its_makers(people):
    ada, bob = people
    url = ada.url + "/mcp"
    answer = httpx2.post(url, json=INITIALIZE, headers=headers_of(ada))
    session = answer.headers["mcp-session-id"]
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    mine = headers_of(ada, **{"Mcp-Session-Id": session})
    assert httpx2.post(url, json=initialized, headers=mine).status_code == 202
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    inner, _, signature = session.partition(".")
    never = f"{inner[::-1]}.{signature}"
    for method, more in [("POST", {"json": ping}), ("GET", {}), ("DELETE", {})]:
        answers = []
        for one in (session, never):
            theirs = headers_of(bob, **{"Mcp-Session-Id": one})
            answer = httpx2.request(method, url, headers=theirs, **more)
            answers.append((answer.status_code, answer.text))
        assert answers[0] == answers[1]
        assert answers[0][0] == 404
    assert httpx2.post(url, json=ping, headers=mine).status_code == 200
    assert httpx2.delete(url, headers=mine).is_success


def test_nobody_takes_all_sessions_of_the_protocol(people):
    ada, bob = people
    url = ada.url + "/mcp"
    with httpx2.Client(timeout=TIME) as http:
        begun = []
        for _ in range(300):
            answer = http.post(url, json=INITIALIZE, headers=headers_of(ada))
            if answer.status_code == 503:
                break
            begun.append(answer.headers["mcp-session-id"])
        assert len(begun) <= 250
        assert http.post(url, json=INITIALIZE, headers=headers_of(ada)).status_code == 503
        assert http.post(url, json=INITIALIZE, headers=headers_of(bob)).status_code == 200
        for session in begun:
            mine = headers_of(ada, **{"Mcp-Session-Id": session})
            assert http.delete(url, headers=mine).is_success
        assert http.post(url, json=INITIALIZE, headers=headers_of(ada)).status_code == 200


def test_the_server_says_nothing_of_names(people):
    """Nothing that Bob is answered has Ada's name."""
    _, bob = people
    with httpx.Client(base_url=bob.url, headers=bob.headers, timeout=TIME) as http:
        for path in ("/v1/sessions", "/v2/sandboxes", "/snapshots", "/api/kernels", "/api/me"):
            answer = http.get(path)
            assert answer.status_code == 200, path
            assert "ada" not in answer.text, path
