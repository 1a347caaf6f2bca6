"""Runs whose connection to their server breaks."""

import asyncio
import contextlib
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

import belljar
from test_connect import OUTCOME, Raw, Scripted, raw, stream

CODE = """
import tools
for n in range(5):
    print(n, flush=True)
    tools.twice(n)
"""


class Cutting:
    """Passes on so many bytes of each connection in one direction, and then cuts it."""

    def __init__(self, url, cuts, side="answer"):
        parts = urlsplit(url)
        self._target = parts.hostname, parts.port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._cuts = iter(cuts)
        self._side = side
        self.count = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.count += 1
            left = next(self._cuts, None)
            server = socket.create_connection(self._target)
            limits = (left, None) if self._side == "answer" else (None, left)
            for pair in ((server, client, limits[0]), (client, server, limits[1])):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    @staticmethod
    def _pass(source, target, left):
        with contextlib.suppress(OSError):
            while left is None or left > 0:
                piece = source.recv(65536 if left is None else min(65536, left))
                if not piece:
                    break
                target.sendall(piece)
                left = None if left is None else left - len(piece)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()


def followed(url, key):
    """Runs code that calls a tool; what was printed, and the calls."""
    calls, told = [], []

    def twice(n: int) -> int:
        calls.append(n)
        return n * 2

    with belljar.connect(url, key, retries=8) as runtime:
        run = runtime.run(CODE, image="core", tools=[twice], on_event=told.append, timeout=60)
    text = "".join(event.text for event in told if event.type == "stdout")
    assert (run.stdout, text) == ("0\n1\n2\n3\n4\n",) * 2
    assert calls == [0, 1, 2, 3, 4]
    assert [event.type for event in told].count("ended") == 1
    return told


@pytest.mark.parametrize("first", [*range(0, 1200, 75), *range(1200, 4200, 300)])
def test_the_answer_is_cut(served, first):
    with Cutting(served[0], [first, first, first + 40, 350, 700]) as proxy:
        followed(proxy.url, served[1])
        assert proxy.count > 1


@pytest.mark.parametrize("first", [0, 1, 100, 300, 600, 640, 680, 900])
def test_the_request_is_cut(served, first):
    with Cutting(served[0], [first, first, first + 500], "request") as proxy:
        followed(proxy.url, served[1])


def test_a_run_in_a_session_runs_once(served):
    for first in (0, 50, 400, 800, 1200):
        # The first connection makes the session.
        with (
            Cutting(served[0], [None, first, 600]) as proxy,
            belljar.connect(proxy.url, served[1]) as runtime,
        ):
            session = runtime.session(image="core", init_code="x = 0")
            told = []
            session.run("x += 1\nprint(x)", on_event=told.append)
            assert session.get("x") == 1
            assert [event.type for event in told][-1] == "ended"


def test_what_is_not_resumed_ends():
    started = raw(stream(("started", {"type": "started"})), 999)
    gone = {"detail": "gone", "code": "stream.gone", "blame": "caller", "status": 410}
    with Raw(started, raw(gone, head=b"HTTP/1.1 410 Gone"), raw(b"")) as server:
        with belljar.connect(server.url) as runtime, pytest.raises(belljar.BelljarError) as caught:
            runtime.run("1", on_event=lambda event: None)
        assert caught.value.code == "stream.gone"
        assert server.seen[1].startswith(b"GET /v1/streams/")
    # An event that is missing is not passed over.
    skipped = b"event: stdout\ndata: {}\nid: 3\n\n"
    with Scripted((200, {}, skipped)) as server, belljar.connect(server.url) as runtime:
        with pytest.raises(belljar.ServerError) as caught:
            runtime.run("1", on_event=lambda event: None)
        assert caught.value.code == "server.answer"
    # A stream that always ends early ends the call.
    whole = stream(("outcome", OUTCOME))[:-1]
    with Scripted((200, {}, whole)) as server:
        with (
            belljar.connect(server.url, retries=2) as runtime,
            pytest.raises(belljar.ServerError) as caught,
        ):
            runtime.run("1", on_event=lambda event: None)
        assert caught.value.code == "server.lost"


def test_what_a_server_does_not_know_is_sent_again_for_a_while(monkeypatch):
    unknown = {"detail": "?", "code": "stream.not_found", "blame": "caller", "status": 404}
    unknown = raw(unknown, head=b"HTTP/1.1 404 Not Found")
    answer = raw(stream(("outcome", OUTCOME)))
    for answers, again in (((b"", unknown, answer), 30), ((b"", unknown), 0)):
        monkeypatch.setattr("belljar._stream._AGAIN", again)
        with Raw(*answers) as server, belljar.connect(server.url) as runtime:
            if again:
                runtime.run("1", on_event=lambda event: None)
            else:
                with pytest.raises(belljar.BelljarError) as caught:
                    runtime.run("1", on_event=lambda event: None)
                assert caught.value.code == "stream.not_found"
            assert [line[:4] for line in server.seen] == [b"POST", b"GET ", b"POST"][: len(answers)]


def test_closing_does_not_wait_for_a_silent_server(monkeypatch):
    monkeypatch.setattr("belljar._http._FAREWELL", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        runtime = belljar.connect(f"http://127.0.0.1:{silent.getsockname()[1]}")
        failed = []

        def run():
            try:
                runtime.run("1", on_event=lambda event: None, timeout=300)
            except belljar.BelljarError as error:
                failed.append(error.code)

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        began = time.monotonic()
        runtime.close()
        for thread in threads:
            thread.join()
        assert time.monotonic() - began < 5
        assert failed == ["closed"] * 8


async def test_a_call_that_is_cancelled_ends_its_run(served, server):
    with belljar.connect(*served) as runtime:
        session = runtime.session(image="core")
        endless = session.arun("while True: pass", timeout=60, on_event=lambda event: None)
        task = asyncio.ensure_future(endless)
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        began = time.monotonic()
        assert (await session.arun("print(1)", timeout=50)).stdout == "1\n"
        assert time.monotonic() - began < 20
