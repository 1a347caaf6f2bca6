"""Judge0: its own client, and requests that wait."""

import httpx
import judge0
import pytest
from judge0 import Client, LanguageAlias, Status


@pytest.fixture
def client(server):
    return Client(f"{server.url}/judge0", {"X-Auth-Token": server.key})


@pytest.fixture
def submit(server):
    """Sends a submission and waits; gives the status and the answer."""

    def send(**body):
        headers = {"X-Auth-Token": server.key}
        url = f"{server.url}/judge0/submissions"
        body = {"source_code": "print(1)", "language_id": 71} | body
        answer = httpx.post(url, params={"wait": "true"}, json=body, headers=headers, timeout=60)
        return answer.status_code, answer.json()

    return send


def test_a_submission_runs(client):
    done = judge0.run(client=client, source_code="print(input()[::-1])", stdin="abc")
    assert done.status == Status.ACCEPTED
    assert (done.stdout, done.stderr, done.exit_code) == ("cba\n", None, 0)
    assert done.time >= 0


def test_test_cases_are_a_batch(client):
    done = judge0.run(
        client=client,
        source_code="print(int(input()) ** 2)",
        language=LanguageAlias.PYTHON,
        test_cases=[("2", "4"), ("3", "9\n"), ("4", "17")],
    )
    statuses = [one.status for one in done]
    assert statuses == [Status.ACCEPTED, Status.ACCEPTED, Status.WRONG_ANSWER]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("1 / 0", 11),
        ("x = (", 11),
        ("import sys; sys.exit(3)", 11),
        ("while True: pass", 5),
        ("x = bytearray(1 << 30)", 12),
        ("import os; os.abort()", 10),
    ],
)
def test_how_a_program_ended_is_told_as_judge0_does(submit, code, status):
    answer = submit(source_code=code, cpu_time_limit=1)
    assert (answer[0], answer[1]["status"]["id"]) == (201, status), answer
    assert answer[1]["message"]


def test_arguments_arrive(submit):
    code = "import sys\nprint(sys.argv[1:])"
    _, answer = submit(source_code=code, command_line_arguments="a 'b c'")
    assert answer["stdout"] == "['a', 'b c']\n"
    assert answer.keys() == {
        *("stdout", "stderr", "compile_output", "message"),
        *("status", "time", "memory", "token"),
    }


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"source_code": ""}, "source_code"),
        ({"language_id": 54}, "language_id"),
        ({"additional_files": "UEs="}, "additional_files"),
        ({"memory_limit": "much"}, "memory_limit"),
    ],
)
def test_what_is_wrong_is_told_by_its_field(submit, body, field):
    status, answer = submit(**body)
    assert (status, list(answer)) == (422, [field])


# What programs that wait for a result ask for.
FIELDS = {
    "status_id": {"status_id": 3},
    "status_id, stdin": {"status_id": 3, "stdin": "7"},
    "language": {"language": {"id": 71, "name": "Python"}},
    "stdout,exit_code,expected_output": {"stdout": "7\n", "exit_code": 0, "expected_output": None},
}


@pytest.mark.parametrize("fields", FIELDS)
def test_fields_are_answered_as_they_are_named(server, submit, fields):
    _, answer = submit(source_code="print(input())", stdin=7)
    headers = {"X-Auth-Token": server.key}
    one = f"{server.url}/judge0/submissions/{answer['token']}"
    found = httpx.get(one, params={"fields": fields}, headers=headers)
    assert found.json() == FIELDS[fields]
    batch = {"tokens": f"{answer['token']},none", "fields": fields}
    found = httpx.get(f"{server.url}/judge0/submissions/batch", params=batch, headers=headers)
    assert found.json() == {"submissions": [FIELDS[fields], None]}


def test_unknown_fields_are_refused(server, submit):
    _, answer = submit()
    headers = {"X-Auth-Token": server.key}
    for path in (f"{answer['token']}?", f"batch?tokens={answer['token']}&"):
        url = f"{server.url}/judge0/submissions/{path}fields=stdout,status_ids"
        refused = httpx.get(url, headers=headers)
        assert refused.status_code == 400
        assert refused.json() == {"error": "invalid fields: [status_ids]"}


def test_its_client_waits_for_a_result_by_its_fields(client):
    sent = judge0.async_run(client=client, source_code="print(input())", stdin="in\n")
    judge0.wait(client=client, submissions=sent)
    assert (sent.status, sent.stdin, sent.stdout) == (Status.ACCEPTED, "in\n", "in\n")


def test_a_batch_has_standard_input(server):
    headers = {"X-Auth-Token": server.key}
    batch = f"{server.url}/judge0/submissions/batch"
    body = [
        {"source_code": "print(input())", "language_id": 71, "stdin": stdin}
        for stdin in ("a", "YQ==\n", 5, None)
    ]
    sent = httpx.post(batch, json={"submissions": body}, headers=headers, timeout=60).json()
    tokens = ",".join(one["token"] for one in sent)
    asked = {"tokens": tokens, "fields": "stdin,stdout,status_id"}
    found = httpx.get(batch, params=asked, headers=headers).json()["submissions"]
    assert [(one["stdin"], one["stdout"]) for one in found] == [
        *(("a", "a\n"), ("YQ==\n", "YQ==\n"), ("5", "5\n"), (None, None))
    ]
    assert [one["status_id"] for one in found] == [3, 3, 3, 11]
    refused = httpx.get(batch, headers=headers)
    assert (refused.status_code, list(refused.json())) == (400, ["error"])


def test_a_result_is_found_by_its_owner_only(server, open_server, submit):
    _, answer = submit()
    path = f"/judge0/submissions/{answer['token']}"
    found = httpx.get(server.url + path, headers={"X-Auth-Token": server.key})
    assert found.json()["stdout"] == "1\n"
    assert httpx.get(server.url + path).status_code == 401
    assert httpx.get(open_server.url + path).status_code == 404
