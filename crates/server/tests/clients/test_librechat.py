"""LibreChat's Code API: its own tools in Node, and the requests of its file service."""

import asyncio
import os
import shutil
import subprocess
import time
from pathlib import Path

import httpx
import pytest

TOOLS = Path(__file__).parent / "js" / "librechat"


@pytest.fixture
def api(server):
    base = f"{server.url}/librechat"
    with httpx.Client(base_url=base, headers={"X-API-Key": server.key}, timeout=60) as client:
        yield client


def run(api, code, **more):
    answer = api.post("/exec", json={"lang": "py", "code": code, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.skipif(
    shutil.which("node") is None or not (TOOLS / "node_modules").exists(),
    reason="node, or its packages (npm ci in js/librechat), are not there",
)
def test_the_tools_of_librechat_work_unmodified(server):
    environment = os.environ | {"BELLJAR_URL": server.url, "BELLJAR_KEY": server.key}
    done = subprocess.run(  # noqa: S603 - its own tests, and nothing else
        [shutil.which("node"), "--test"],
        cwd=TOOLS,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def upload(api, name, data, **fields):
    headers = {"User-Id": "user", "User-Agent": "LibreChat/1.0"}
    answer = api.post("/upload", files={"file": (name, data)}, data=fields, headers=headers)
    assert answer.status_code == 200, answer.text
    uploaded = answer.json()
    assert uploaded["message"] == "success"
    # Old clients read the one name, new ones the other.
    assert uploaded["session_id"] == uploaded["storage_session_id"]
    [file] = uploaded["files"]
    assert file["filename"] == name
    session = uploaded["storage_session_id"]
    return {"id": file["fileId"], "storage_session_id": session, "name": name, "kind": "agent"}


def test_a_file_is_uploaded_used_and_downloaded(api):
    ref = upload(api, "numbers.csv", b"x\n1\n2\n", entity_id="agent")
    session, file = ref["storage_session_id"], ref["id"]
    code = "import csv\nprint([row['x'] for row in csv.DictReader(open('/mnt/data/numbers.csv'))])"
    answer = run(api, code, files=[ref])
    assert (answer["stdout"], answer["stderr"]) == ("['1', '2']\n", "")
    assert answer["files"] == [ref | {"inherited": True}]
    download = api.get(f"/download/{session}/{file}", params={"kind": "user", "id": "user"})
    assert download.content == b"x\n1\n2\n"
    assert download.headers["content-disposition"].startswith("attachment")
    assert download.headers["x-content-type-options"] == "nosniff"
    about = api.get(f"/sessions/{session}/objects/{file}").json()
    assert about["lastModified"].endswith("Z")
    [listed] = api.get(f"/files/{session}", params={"detail": "full"}).json()
    assert listed["metadata"]["original-filename"] == "numbers.csv"
    assert listed["name"].startswith(f"{session}/{file}")
    assert api.delete(f"/files/{session}/{file}").status_code == 200
    assert api.get(f"/download/{session}/{file}").status_code == 404


def test_a_batch_says_of_each_file_whether_it_is_kept(api):
    files = [("file", ("skill/a.py", b"A = 1")), ("file", ("../b.py", b"B = 2"))]
    skill = {"kind": "skill", "id": "s", "version": "1"}
    answer = api.post("/upload/batch", files=files, data=skill).json()
    assert (answer["succeeded"], answer["failed"], answer["message"]) == (1, 1, "partial_success")
    good, bad = answer["files"]
    assert (good["status"], good["filename"]) == ("success", "skill/a.py")
    assert (bad["status"], bad["filename"]) == ("error", "../b.py")


def test_what_code_does_to_read_only_files_is_dropped(api):
    form = {"file": ("tool.py", b"X = 1")}
    answer = api.post("/upload/batch", files=form, data={"read_only": "true"}).json()
    ref = {
        "id": answer["files"][0]["fileId"],
        "storage_session_id": answer["storage_session_id"],
        "name": "tool.py",
    }
    answer = run(api, "open('tool.py', 'w').write('X = 2')", files=[ref])
    assert [(file["id"], file.get("inherited")) for file in answer["files"]] == [(ref["id"], True)]


def test_changed_and_deleted_files_are_told(api):
    first, second = upload(api, "a.txt", b"a"), upload(api, "b.txt", b"b")
    code = (
        "import os\n"
        "open('a.txt', 'a').write('!')\n"
        "os.remove('b.txt')\n"
        "os.makedirs('d')\n"
        "open('d/c.txt', 'w').close()"
    )
    answer = run(api, code, files=[first, second])
    assert answer["deleted_files"] == ["b.txt"]
    files = {file["name"]: file for file in answer["files"]}
    assert sorted(files) == ["a.txt", "d/c.txt"]
    changed = files["a.txt"]
    assert changed["id"] != first["id"]
    assert "inherited" not in changed
    path = f"/download/{changed['storage_session_id']}/{changed['id']}"
    assert api.get(path).content == b"a!"


def test_code_that_fails_leaves_nothing(api):
    answer = run(api, "open('a.txt', 'w').write('a')\n1 / 0")
    assert answer["files"] == []
    assert "ZeroDivisionError" in answer["stderr"]


def test_a_file_that_is_gone_is_told(api):
    ref = {"id": "nothing", "storage_session_id": "nowhere", "name": "lost.txt"}
    answer = run(api, "print('ran')", files=[ref])
    assert answer["stdout"] == "ran\n"
    assert "lost.txt" in answer["stderr"]


def test_arguments_arrive(api):
    code = "import sys\nprint(sys.argv[1:])"
    assert run(api, code, args=["a", "b"])["stdout"] == "['a', 'b']\n"
    assert run(api, code, args="one")["stdout"] == "['one']\n"


def test_time_that_is_over_is_explained(api):
    answer = run(api, "print('so far', flush=True)\nwhile True: pass", timeout=500)
    assert answer["stdout"] == "so far\n"
    assert "timed out after 0.5 seconds" in answer["stderr"]


def test_a_directory_keeps_its_files_and_takes_newer_ones(api):
    hint = f"chat-{time.monotonic_ns()}"
    first = run(api, "open('a.txt', 'w').write('1')", runtime_session_hint=hint)
    assert first["runtime_status"] == "new"
    [made] = first["files"]
    old = {"id": made["id"], "storage_session_id": made["storage_session_id"], "name": "a.txt"}
    # The caller sends along what it knows of; what is in the directory is newer.
    code = "print(open('a.txt').read())\nopen('a.txt', 'w').write('2')"
    second = run(api, code, runtime_session_hint=hint, files=[old])
    assert (second["stdout"], second["runtime_status"]) == ("1\n", "reused")
    third = run(api, "print(open('a.txt').read())", runtime_session_hint=hint, files=[old])
    assert third["stdout"] == "2\n"
    new = upload(api, "a.txt", b"new")
    fourth = run(api, "print(open('a.txt').read())", runtime_session_hint=hint, files=[old, new])
    assert fourth["stdout"] == "new\n"
    other = run(api, "import os\nprint(os.listdir('.'))", runtime_session_hint=hint + "-other")
    assert (other["stdout"], other["runtime_status"]) == ("[]\n", "new")


WEATHER = {
    "name": "get-weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def programmatic(api, **body):
    answer = api.post("/exec/programmatic", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_calls_are_answered_over_requests(api):
    code = "a = await get_weather(city='A')\nb = await get_weather(city=a['next'])\nprint(a, b)"
    answer = programmatic(api, code=code, tools=[WEATHER], timeout=10_000)
    assert answer["status"] == "tool_call_required"
    [call] = answer["tool_calls"]
    assert call == {"id": "call_001", "name": "get-weather", "input": {"city": "A"}}
    token = answer["continuation_token"]
    results = [{"call_id": "call_001", "result": {"next": "B"}, "is_error": False}]
    answer = programmatic(api, continuation_token=token, tool_results=results)
    [call] = answer["tool_calls"]
    assert (call["id"], call["input"]) == ("call_002", {"city": "B"})
    results = [{"call_id": "call_002", "result": [1, None, "x"], "is_error": False}]
    answer = programmatic(
        api, continuation_token=answer["continuation_token"], tool_results=results
    )
    assert (answer["status"], answer["stdout"]) == ("completed", "{'next': 'B'} [1, None, 'x']\n")
    # It is over.
    body = {"continuation_token": token, "tool_results": results}
    assert api.post("/exec/programmatic", json=body).status_code == 404


def test_calls_that_wait_together_may_be_answered_one_by_one(api):
    code = "print(await asyncio.gather(get_weather(city='A'), get_weather(city='B')))"
    answer = programmatic(api, code=code, tools=[WEATHER])
    assert [call["input"]["city"] for call in answer["tool_calls"]] == ["A", "B"]
    one = [{"call_id": "call_002", "result": 2, "is_error": False}]
    answer = programmatic(api, continuation_token=answer["continuation_token"], tool_results=one)
    assert [call["id"] for call in answer["tool_calls"]] == ["call_001"]
    other = [{"call_id": "call_001", "result": 1, "is_error": False}]
    answer = programmatic(api, continuation_token=answer["continuation_token"], tool_results=other)
    assert answer["stdout"] == "[1, 2]\n"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"tools": [WEATHER]}, 400, "Missing required field: code"),
        ({"code": "1"}, 400, "Missing required field: tools"),
        ({"code": "ls", "tools": [WEATHER], "lang": "bash"}, 400, "only python"),
        ({"code": "1", "tools": [WEATHER, WEATHER]}, 400, "get_weather"),
        ({"continuation_token": "x"}, 400, "tool_results must be an array"),
        ({"continuation_token": "x", "tool_results": []}, 400, "non-empty"),
        ({"continuation_token": "x", "tool_results": [{"call_id": "call_001"}]}, 404, "not found"),
        (
            {"continuation_token": "ptc-x", "tool_results": [{"call_id": "call_001"}]},
            404,
            "not found",
        ),
    ],
)
def test_what_is_wrong_with_a_request_is_told(api, body, status, message):
    answer = api.post("/exec/programmatic", json=body)
    assert answer.status_code == status
    assert message in answer.json()["error"]


def test_a_call_that_was_not_made_cannot_be_answered(api):
    code = "print(await get_weather(city='A'), await get_weather(city='B'))"
    answer = programmatic(api, code=code, tools=[WEATHER])
    token = answer["continuation_token"]
    for call in ["call_003", "call_x", "", "001"]:
        body = {"continuation_token": token, "tool_results": [{"call_id": call, "result": 1}]}
        assert api.post("/exec/programmatic", json=body).status_code == 400, call
    # It waits as before.
    results = [{"call_id": "call_001", "result": "sun"}]
    answer = programmatic(api, continuation_token=token, tool_results=results)
    assert answer["tool_calls"] == [
        {"id": "call_002", "name": "get-weather", "input": {"city": "B"}}
    ]
    results = [{"call_id": "call_002", "result": "rain"}]
    answer = programmatic(api, continuation_token=token, tool_results=results)
    assert answer["stdout"] == "sun rain\n"


def test_a_request_is_cancelled_by_its_id(server):
    async def cancelled():
        base, headers = f"{server.url}/librechat", {"X-API-Key": server.key}
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=60) as client:
            body = {"code": "while True: pass", "tools": [WEATHER], "timeout": 30_000}
            named = {"X-LibreChat-Code-Request-ID": "request-1"}
            running = asyncio.create_task(
                client.post("/exec/programmatic", json=body, headers=named)
            )
            await asyncio.sleep(0.5)
            again = await client.post("/exec/programmatic", json=body, headers=named)
            assert again.status_code == 409
            started = time.monotonic()
            answer = await client.post(
                "/exec/programmatic/cancel", json={"request_id": "request-1"}
            )
            assert (answer.status_code, answer.json()["status"]) == (202, "cancellation_requested")
            answer = (await running).json()
            assert answer["status"] == "error"
            assert "cancelled" in answer["error"]
            assert time.monotonic() - started < 3
            # A request cancelled before it arrives does not start.
            await client.post("/exec/programmatic/cancel", json={"request_id": "request-2"})
            named = {"X-LibreChat-Code-Request-ID": "request-2"}
            early = await client.post("/exec/programmatic", json=body, headers=named)
            assert early.json()["status"] == "error"

    asyncio.run(cancelled())


def test_a_key_is_needed(server):
    for path in ["/exec", "/exec/programmatic", "/exec/programmatic/cancel"]:
        assert httpx.post(f"{server.url}/librechat{path}", json={}).status_code == 401
    assert httpx.get(f"{server.url}/librechat/download/a/b").status_code == 401
    assert httpx.post(f"{server.url}/librechat/upload", files={"file": b"x"}).status_code == 401
