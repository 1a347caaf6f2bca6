"""belljar's own API, with the HTTP client that Python programs have."""

import httpx
import pytest


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, headers=server.headers, timeout=60) as client:
        yield client


def test_a_run_answers_with_its_outcome(http):
    response = http.post("/v1/runs", json={"code": "print(1)\nresult = {'a': [1, 2]}"})
    assert response.status_code == 200
    outcome = response.json()
    assert outcome["stdout"] == "1\n"
    assert outcome["result"] == {"a": [1, 2]}


def test_who_has_no_key_is_told_how_to_send_one(server):
    response = httpx.post(f"{server.url}/v1/runs", json={"code": "1"})
    assert response.status_code == 401
    assert response.headers["content-type"] == "application/problem+json"
    assert "Bearer" in response.json()["hint"]


def test_a_request_that_cannot_be_run_is_told_every_reason(http):
    asked = {"code": "1", "timeout": 1e9, "files": {"../a": "x", "b": {"path": "/etc/passwd"}}}
    response = http.post("/v1/runs", json=asked)
    assert response.status_code == 422
    problem = response.json()
    assert problem["code"] == "refused"
    assert {"field", "kind", "message"} <= problem["reasons"][0].keys()


def test_without_authentication_nobody_needs_a_key(open_server):
    response = httpx.post(f"{open_server.url}/v1/runs", json={"code": "print(2)"})
    assert response.json()["stdout"] == "2\n"
