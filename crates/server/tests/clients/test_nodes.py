"""Servers that share a store: sessions move between them, and a crash loses none.

BELLJAR_NODES_SECONDS says for how long servers are killed under load; CI does it for half a minute.
"""

import itertools
import json
import os
import random
import re
import signal
import threading
import time

import httpx
from nodes_support import LEASE, nodes, store  # noqa: F401

SECONDS = float(os.environ.get("BELLJAR_NODES_SECONDS", "30"))
LOST = re.compile(r"run (\d+) was lost: node (\w+) went away before its end was written down")


def made(nodes, at=0, **asked):
    answer = nodes.ask(at, "POST", "/v1/sessions", json={"image": "core", **asked})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def test_a_session_is_everywhere(nodes):
    name = f"s{random.randrange(10**9)}"
    session = made(nodes, name=name, code="log = []", labels={"a": "b"})
    for turn in range(6):
        outcome = nodes.run(turn % 3, (session, name)[turn % 2], f"log.append({turn}); print(log)")
        assert outcome["stdout"].splitlines()[-1] == str(list(range(turn + 1)))
        assert outcome["execution"] == turn + 1
        assert "restart_reason" not in outcome
    path = f"/v1/sessions/{session}"
    assert nodes.ask(1, "PUT", f"{path}/files/d/x.txt", content=b"hello").status_code == 201
    assert nodes.ask(2, "GET", f"{path}/files/d/x.txt").content == b"hello"
    assert nodes.ask(0, "PUT", f"{path}/variables/log", json=[7]).status_code == 204
    assert nodes.ask(1, "GET", f"{path}/variables/log").json() == [7]
    assert nodes.ask(2, "POST", f"{path}/rewind", json={"execution": 2}).status_code == 200
    assert nodes.run(0, session, "log")["stdout"] == "[0, 1]\n"
    assert nodes.ask(1, "PATCH", path, json={"labels": {"c": "d"}}).json()["labels"] == {"c": "d"}
    shown = nodes.ask(2, "GET", path).json()
    assert shown["labels"] == {"c": "d"} and shown["name"] == name and shown["status"] != "running"
    taken = nodes.ask(1, "POST", "/v1/sessions", json={"name": name})
    assert (taken.status_code, taken.json()["code"]) == (409, "session.name_taken")
    fork = nodes.ask(1, "POST", f"{path}/fork", json={"name": name + "-fork"}).json()["id"]
    listed = [one["id"] for one in nodes.ask(2, "GET", "/v1/sessions").json()["sessions"]]
    assert listed[-2:] == [session, fork]
    for at, one in ((0, session), (1, fork)):
        assert nodes.ask(at, "DELETE", f"/v1/sessions/{one}").status_code == 204
    for at in range(3):
        for gone in (session, fork, name):
            assert nodes.ask(at, "GET", f"/v1/sessions/{gone}").status_code == 404
            refused = nodes.ask(at, "POST", f"/v1/sessions/{gone}/runs", json={"code": "1"})
            assert refused.status_code == 404
    assert made(nodes, 2, name=name)


def test_two_who_ask_at_once_wait_for_each_other(nodes):
    session = made(nodes, code="n = 0")
    answers = []

    def count(at):
        with httpx.Client(headers=nodes.headers, timeout=60) as client:
            for _ in range(10):
                url = f"{nodes.servers[at].url}/v1/sessions/{session}/runs"
                answers.append(client.post(url, json={"code": "n += 1; print(n)"}).json()["stdout"])

    threads = [threading.Thread(target=count, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, answers)) == list(range(1, 31))


def run_behind(nodes, at, session, code):
    """Starts a run in the background; its result is added to the list."""
    came = []

    def ask():
        try:
            with httpx.Client(headers=nodes.headers, timeout=60) as client:
                url = f"{nodes.servers[at].url}/v1/sessions/{session}/runs"
                came.append(client.post(url, json={"code": code, "timeout": 50}))
        except httpx.HTTPError as error:
            came.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.5)
    return thread, came


def test_what_is_lost_with_a_server_is_told(nodes):
    session = made(nodes, code="log = []")
    nodes.run(0, session, "log.append('kept')")
    thread, came = run_behind(nodes, 0, session, "log.append('lost')\nimport time\ntime.sleep(40)")
    assert nodes.ask(1, "GET", f"/v1/sessions/{session}").json()["status"] == "running"
    nodes.servers[0].process.kill()
    begun = time.monotonic()
    outcome = nodes.run(1, session, "log")
    assert time.monotonic() - begun < 4 * LEASE
    thread.join()
    assert isinstance(came[0], httpx.HTTPError)
    assert outcome["stdout"] == "['kept']\n" and outcome["interpreter_restarted"]
    assert LOST.fullmatch(outcome["restart_reason"])[1] == "2"
    assert "restart_reason" not in nodes.run(2, session, "log")


def test_a_server_that_stalled_learns_that_it_is_late(nodes):
    session = made(nodes, code="log = []")
    thread, came = run_behind(nodes, 0, session, "log.append('late')\nimport time\ntime.sleep(2)")
    stalled = nodes.servers[0].process
    stalled.send_signal(signal.SIGSTOP)
    outcome = nodes.run(1, session, "log")
    assert outcome["stdout"] == "[]\n" and "was lost" in outcome["restart_reason"]
    stalled.send_signal(signal.SIGCONT)
    thread.join()
    problem = came[0].json()
    assert (came[0].status_code, problem["code"]) == (409, "session.taken"), problem
    assert nodes.run(2, session, "log.append('next'); print(log)")["stdout"].endswith("['next']\n")
    assert nodes.run(0, session, "log")["stdout"] == "['next']\n"


def test_a_run_is_interrupted_from_elsewhere_and_kept_from_others_meanwhile(nodes):
    session = made(nodes)
    thread, came = run_behind(nodes, 0, session, "while True: pass")
    assert nodes.ask(1, "POST", f"/v1/sessions/{session}/interrupt").json() == {"interrupted": True}
    thread.join()
    assert came[0].json()["error_detail"]["kind"] == "interrupted"
    # Readers wait until the run is written.
    assert len(nodes.ask(2, "GET", f"/v1/sessions/{session}/history").json()["runs"]) == 1
    assert nodes.ask(1, "POST", f"/v1/sessions/{session}/interrupt").json() == {
        "interrupted": False
    }


def test_a_server_that_ends_hands_its_sessions_over(nodes):
    sessions = [made(nodes, code="x = 1") for _ in range(4)]
    for number, session in enumerate(sessions):
        nodes.run(0, session, f"x += {number}")
    assert nodes.servers[0].stop() == 0
    for number, session in enumerate(sessions):
        outcome = nodes.run(1 + number % 2, session, "x")
        assert outcome["stdout"] == f"{1 + number}\n" and "restart_reason" not in outcome
    for at in (1, 2):
        figures = nodes.ask(at, "GET", "/metrics").text
        assert 'belljar_stored_sessions{what="woken"} 2' in figures
        assert 'belljar_stored_sessions{what="taken_over"} 0' in figures, "it waited for a lease"


class Client(threading.Thread):
    """Runs code in its own session on each server in turn, and checks the results."""

    def __init__(self, nodes, session, end):
        super().__init__()
        self.nodes, self.session, self.end = nodes, session, end
        self.said = {}  # By number of the run: the value it added, and the failures until then.
        self.told, self.wrong, self.ran, self.broken = 0, [], 0, 0

    def run(self):
        with httpx.Client(headers=self.nodes.headers, timeout=30) as client:
            for token in itertools.count():
                if time.monotonic() > self.end:
                    return
                try:
                    url = random.choice(self.nodes.servers[-3:]).url
                    answer = client.post(
                        f"{url}/v1/sessions/{self.session}/runs",
                        json={"code": f"log.append({token})\nprint(log)"},
                    )
                except httpx.HTTPError:
                    self.broken += 1
                    time.sleep(0.05)
                    continue
                self.look(token, answer)

    def look(self, token, answer):
        if answer.status_code in (409, 503):
            # Another server has it for too long, or has taken it meanwhile: both are said.
            self.broken += 1
            return
        if answer.status_code != 200:
            self.wrong.append(answer.text)
            return
        outcome = answer.json()
        self.ran += 1
        told = {int(number) for number, _ in LOST.findall(outcome.get("restart_reason", ""))}
        self.told += len(told)
        log = json.loads(outcome["stdout"].splitlines()[-1])
        if log != sorted(set(log)) or log[-1] != token:
            self.wrong.append(f"run twice, or not at all: {log} for {token}")
        for number, (said, broken) in list(self.said.items()):
            if said not in log:
                # Where an answer did not arrive in between it may have been in that.
                if number not in told and broken == self.broken:
                    self.wrong.append(f"run {number} is lost and nobody said so: {outcome}")
                del self.said[number]
        self.said[outcome["execution"]] = token, self.broken


def test_servers_that_die_under_load_lose_no_session(nodes):
    sessions = [made(nodes, at % 3, code="log = []") for at in range(6)]
    end = time.monotonic() + SECONDS
    clients = [Client(nodes, session, end) for session in sessions]
    for client in clients:
        client.start()
    killed = 0
    pause = 10 if SECONDS >= 120 else 4
    while time.monotonic() + pause < end:
        time.sleep(pause * random.uniform(0.8, 1.2))
        nodes.servers[-3].process.kill()
        nodes.start()
        killed += 1
    for client in clients:
        client.join()
    wrong = [text for client in clients for text in client.wrong]
    ran, broken, told = (
        sum(getattr(client, what) for client in clients) for what in ("ran", "broken", "told")
    )
    print(f"{killed} killed, {ran} runs, {broken} without an outcome, {told} told as lost")
    assert not wrong, wrong[:3]
    assert killed >= 3 and ran > 10 * killed
    for session in sessions:
        outcome = nodes.run(-1, session, "print(len(log), len(set(log)))")
        count, different = map(int, outcome["stdout"].split())
        assert count == different > 0
