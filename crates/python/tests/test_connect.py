"""What only a runtime does that is a server: the tests for both are in the other files."""

import asyncio
import gc
import json
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import belljar
from belljar import _http, _remote
from belljar.agent import Agent
from scripted import code


def body_of(document):
    return document if isinstance(document, bytes) else json.dumps(document).encode()


def stream(*events):
    numbered = enumerate(events, 1)
    texts = (f"event: {n}\ndata: {json.dumps(data)}\nid: {i}\n\n" for i, (n, data) in numbered)
    return "".join(texts).encode()


class Scripted:
    """A server that answers with what it is told, one answer after the other."""

    def __init__(self, *answers):
        script, self.seen, self.peers = list(answers), [], []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(handler):  # noqa: N805
                length = int(handler.headers.get("Content-Length", 0))
                body = handler.rfile.read(length)
                self.seen.append((handler.command, handler.path, dict(handler.headers), body))
                self.peers.append(handler.client_address)
                answer = script.pop(0) if len(script) > 1 else script[0]
                if answer is None:
                    handler.connection.close()
                    handler.close_connection = True
                    return
                status, headers, document = answer
                data = body_of(document)
                handler.send_response(status)
                for name, value in {**headers, "Content-Length": len(data)}.items():
                    handler.send_header(name, str(value))
                handler.end_headers()
                handler.wfile.write(data)

            do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


class Raw:
    """A server that sends bytes, for each request the next, and then closes the connection."""

    def __init__(self, *answers):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.seen = []

        def serve():
            for answer in answers:
                connection, _ = self._listener.accept()
                with connection, connection.makefile("rb") as request:
                    self.seen.append(request.readline())
                    length = 0
                    while (line := request.readline()) != b"\r\n":
                        if line.lower().startswith(b"content-length:"):
                            length = int(line.split(b":")[1])
                    request.read(length)
                    connection.sendall(answer)

        self.thread = threading.Thread(target=serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()


def raw(document, length=None, head=b"HTTP/1.1 200 OK"):
    data = body_of(document)
    told = f"\r\nContent-Length: {length or len(data)}\r\nConnection: close\r\n\r\n"
    return head + told.encode() + data


OUTCOME = {"success": True, "stdout": "1\n", "result": None, "error": None, "files": []}
SESSION = {"id": "0123", "name": None}


def problem(status, code, **headers):
    document = {"status": status, "detail": "no", "code": code, "blame": "machine"}
    return status, headers, document


def test_the_environment_names_the_server(monkeypatch, served):
    url, key = served
    monkeypatch.delenv("BELLJAR_URL", raising=False)
    with pytest.raises(belljar.RefusedError, match="BELLJAR_URL"):
        belljar.connect()
    monkeypatch.setenv("BELLJAR_URL", url + "/")
    monkeypatch.setenv("BELLJAR_KEY", key)
    with belljar.connect() as runtime:
        assert runtime.run("print(1)", image="core").stdout == "1\n"


@pytest.mark.parametrize(
    "url",
    ["example.org", "ftp://example.org", "http://", "https://me:secret@example.org", "http://a/?b"],
)
def test_a_url_that_is_no_server(url):
    with pytest.raises(belljar.RefusedError) as caught:
        belljar.connect(url)
    assert caught.value.reasons[0].field == "url"


def test_a_key_that_nobody_has(served):
    with (
        belljar.connect(served[0], "belljar_wrong") as runtime,
        pytest.raises(belljar.ServerError) as caught,
    ):
        runtime.run("1")
    assert caught.value.code == "no_key"
    assert caught.value.hint


def test_https_goes_through_a_proxy(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        seen = []

        def refuse():
            for _ in range(2):
                connection, _ = proxy.accept()
                with connection:
                    seen.append(connection.recv(4096).decode())
                    connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=refuse, daemon=True).start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:pw@127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", "direct.invalid")
        with pytest.raises(belljar.ServerError) as caught:
            belljar.connect("https://server.invalid", retries=1).run("1")
        assert caught.value.code == "server.unreachable"
        assert len(seen) == 2
        assert seen[0].startswith("CONNECT server.invalid:443 ")
        assert "Proxy-Authorization: Basic bWU6cHc=" in seen[0]
        with pytest.raises(belljar.ServerError):
            belljar.connect("https://direct.invalid", retries=0).run("1")
        assert len(seen) == 2


def test_no_server():
    with Scripted((200, {}, {})) as server:
        url = server.url
    with belljar.connect(url, retries=1) as runtime, pytest.raises(belljar.ServerError) as caught:
        runtime.run("1")
    assert caught.value.code == "server.unreachable"
    assert url in str(caught.value)


def test_no_request_follows_a_refused_body():
    answers = problem(422, "bad_field"), problem(404, "image"), (200, {}, {"sessions": []})
    with Scripted(*answers) as server, belljar.connect(server.url) as runtime:
        for call in (lambda: runtime.run("1"), lambda: runtime.images.list()):
            with pytest.raises(belljar.BelljarError):
                call()
        runtime.sessions()
        first, second, third = server.peers
        assert first != second == third


def test_another_kind_of_server():
    with (
        Scripted((502, {}, "bad gateway")) as server,
        belljar.connect(server.url) as runtime,
        pytest.raises(belljar.ServerError) as caught,
    ):
        runtime.run("1")
    assert caught.value.code == "server.answer"


def test_a_busy_server_is_asked_again():
    busy = problem(503, "busy", **{"Retry-After": "0"})
    with Scripted(busy, busy, (200, {}, OUTCOME)) as server, belljar.connect(server.url) as runtime:
        assert runtime.run("print(1)").stdout == "1\n"
        assert len(server.seen) == 3
    with Scripted(busy) as server, belljar.connect(server.url, retries=1) as runtime:
        with pytest.raises(belljar.BusyError):
            runtime.run("print(1)")
        assert len(server.seen) == 2
    late = problem(429, "limit", **{"Retry-After": "3600"})
    with Scripted(late) as server, belljar.connect(server.url) as runtime:
        with pytest.raises(belljar.BusyError):
            runtime.run("print(1)")
        assert len(server.seen) == 1


def test_a_lost_answer():
    lost = None
    with Scripted(lost, (200, {}, OUTCOME)) as server, belljar.connect(server.url) as runtime:
        # Nothing outside of the sandbox has happened.
        assert runtime.run("print(1)").success
        assert len(server.seen) == 2
    answers = (201, {}, SESSION), lost, (204, {}, None)
    with Scripted(*answers) as server, belljar.connect(server.url) as runtime:
        session = runtime.session()
        with pytest.raises(belljar.ServerError) as caught:
            session.run("x += 1")
        assert caught.value.code == "server.lost"
        assert len(server.seen) == 2


def test_what_is_made_is_made_once():
    under_way = problem(409, "idempotency_key")
    with Scripted(None, under_way, (201, {}, SESSION)) as server:
        with belljar.connect(server.url, keep_sessions=True) as runtime:
            assert runtime.session().id == "0123"
        keys = {headers["Idempotency-Key"] for _, _, headers, _ in server.seen}
        assert (len(server.seen), len(keys)) == (3, 1)
    with (
        Scripted((201, {}, SESSION), under_way) as server,
        belljar.connect(server.url, timeout=0.5, retries=0, keep_sessions=True) as runtime,
    ):
        session = runtime.session()
        with pytest.raises(belljar.BelljarError) as caught:
            session.fork()
        assert caught.value.code == "idempotency_key"
        assert len(server.seen) > 2


def test_a_silent_server():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with belljar.connect(url, timeout=0.2) as runtime:
            began = time.monotonic()
            with pytest.raises(belljar.ServerError) as caught:
                runtime.sessions()
            assert time.monotonic() - began < 5
            assert caught.value.code == "server.timeout"
    with (
        Scripted((200, {}, {"sessions": []})) as server,
        belljar.connect(server.url, timeout=None) as runtime,
    ):
        assert runtime.sessions() == []


def test_limits_of_a_connection_are_for_runs_that_give_none(served):
    endless = "while True: pass"
    with belljar.connect(*served, limits=belljar.Limits(timeout=0.2)) as runtime:
        error = runtime.run(endless, image="core").error
        assert str(error) == "Code execution timed out after 0.2 seconds"
        assert runtime.run("import time\ntime.sleep(0.6)", image="core", timeout=None).success
        with runtime.session(image="core") as session:
            assert session.run(endless).error.kind == "timeout"
    with pytest.raises(TypeError, match="did you mean 'timeout'"):
        belljar.connect(*served, limits={"timeuot": 1})


def test_a_timeout_of_none_is_not_a_missing_one():
    about = {"id": "1", "status": "idle"}
    outcome = {"success": True, "files": [], "events": []}
    answers = [(201, {}, about)] + [(200, {}, outcome)] * 5
    waits = []
    with Scripted(*answers) as server, belljar.connect(server.url) as runtime:
        ask, link = runtime._core.link.ask, runtime._core.link

        def noted(call, method, path, *rest, **options):
            waits.append(options.get("silence"))
            return ask(call, method, path, *rest, **options)

        link.ask = noted
        session = runtime.session(timeout=None, memory_mb=None)
        session.run("1")
        runtime.run("1", timeout=None)
        runtime.run("1", limits=belljar.Limits(timeout=None))
        runtime.run("1", timeout=5)
        runtime.run("1", memory_mb=None)
        runtime.close()
    asked = [json.loads(body) for _, _, _, body in server.seen[:6]]
    missing = "missing"
    assert [one.get("timeout", missing) for one in asked] == [None, missing, None, None, 5, missing]
    assert not any("memory_mb" in one for one in asked)
    # For ever, or the limit and a silence of 60 s.
    assert waits[:6] == [None, None, None, None, 65, 660]


def test_sessions_end_with_their_runtime(served, server):
    def there():
        return {info.id for info in server.sessions()}

    with belljar.connect(*served) as runtime:
        session = runtime.session(image="core")
        assert session.id in there()
    assert session.id not in there()
    with pytest.raises(belljar.ClosedError):
        session.run("1")
    with belljar.connect(*served) as runtime:
        # The last handle goes just before the runtime.
        id = runtime.session(image="core").id
        gc.collect()
    assert id not in there()
    with belljar.connect(*served, keep_sessions=True) as runtime:
        id = runtime.session(image="core", init_code="x = 1").id
        gc.collect()
    assert server.find(id).get("x") == 1
    gc.collect()
    # A session that was found does not end with its handle.
    assert server.find(id).get("x") == 1
    server.find(id).close()
    assert id not in there()


def test_a_closed_runtime_ends_what_it_waits_for(served):
    runtime = belljar.connect(*served)
    threading.Timer(0.5, runtime.close).start()
    began = time.monotonic()
    with pytest.raises(belljar.ClosedError):
        runtime.run("while True: pass", image="core", timeout=60)
    assert time.monotonic() - began < 10


def test_large_files_go_both_ways(server, tmp_path):
    data = os.urandom(3 << 20)
    (tmp_path / "big").write_bytes(data)
    code = "data = open('in/big', 'rb').read()\nn = open('out', 'wb').write(data[::-1])\nresult = n"
    files = {"in/big": tmp_path / "big", "small": "text"}
    run = server.run(code, image="core", files=files)
    assert run.result == len(data)
    assert run["out"] == data[::-1]
    assert [path.name for path in run.save(tmp_path / "copies")] == ["out"]
    assert (tmp_path / "copies" / "out").read_bytes() == data[::-1]
    with server.session(image="core") as session:
        assert session.run(code, files=files).result == len(data)
        assert session.get("n") == len(data)
        assert session.files.read("out", 1, 5) == data[::-1][1:5]


def test_a_server_cannot_name_files_elsewhere(tmp_path):
    files = [{"path": "../evil", "size": 1}]
    answers = (200, {}, {**OUTCOME, "run": "1", "files": files}), (200, {}, "x")
    with Scripted(*answers) as server, belljar.connect(server.url) as runtime:
        run = runtime.run("1")
        with pytest.raises(belljar.ServerError):
            run.save(tmp_path / "in")
    assert not (tmp_path / "evil").exists()


def answers_to(calls, **options):
    """What a run answers to calls that a server has not checked, and its tool's arguments."""
    taken = []

    def price(symbol: str, count: int = 1) -> int:
        taken.append((symbol, count))
        return 1

    events = [("call", {"name": "price", **call, "id": f"{n}"}) for n, call in enumerate(calls)]
    events.append(("outcome", OUTCOME))
    answers = (200, {}, stream(*events)), (204, {}, None)
    with Scripted(*answers) as server:
        with belljar.connect(server.url) as runtime:
            runtime.run("1", tools=[price], **options)
        # The end of the run cancels calls that have not begun.
        said = {path: json.loads(body) for _, path, _, body in server.seen[1:]}
    return [said.get(f"/v1/calls/{n}", {}).get("error") for n in range(len(calls))], taken


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"symbol": 1}, "symbol: "),
        ({"symbol": "x", "count": "1"}, "count: "),
        ({"symbol": "x", "more": 1}, "'more'"),
        ({}, '"symbol"'),
        ([], 'type "object"'),
        ({"symbol": {"$": "nothing"}}, "symbol: "),
        ({"symbol": "x", "count": 1e400}, "JSON"),
    ],
)
def test_arguments_are_checked_here_too(arguments, message):
    (said,), taken = answers_to([{"arguments": arguments}])
    assert message in said
    assert taken == []


def test_a_server_calls_only_what_it_was_given():
    assert answers_to([{"name": "other", "arguments": {}}]) == (["KeyError"], [])
    assert answers_to([{}]) == (["KeyError"], [])


def test_calls_are_counted_here_too():
    call = {"arguments": {"symbol": "x" * 100}}
    said, taken = answers_to([call] * 4, tool_limits={"calls": 2})
    assert said[2:] == ["the run has used up its 2 calls"] * 2
    assert len(taken) <= 2
    (said,), taken = answers_to([call], tool_limits={"argument_bytes": 100})
    assert "at most 100 are taken" in said
    assert taken == []
    said, taken = answers_to([call] * 3, tool_limits={"total_bytes": 300})
    assert said[2] == "the run has used up its 300 bytes for calls"
    assert len(taken) <= 2


def test_answers_are_counted():
    calls = belljar._belljar.Calls({"total_bytes": 100})
    calls.prompted("")
    assert calls.answer("x" * 100).startswith('"xxx')
    with pytest.raises(ValueError, match="used up its 100 bytes"):
        calls.prompted("")


async def test_many_at_once(server):
    async def one(number: int) -> int:
        await asyncio.sleep(0.05)
        return number * 2

    async def run(number):
        code = f"import tools\nresult = await tools.one({number})"
        return (await server.arun(code, image="core", tools=[one], timeout=60)).result

    assert await asyncio.gather(*(run(number) for number in range(20))) == list(range(0, 40, 2))


def test_calls_that_take_too_long_are_cancelled(server):
    ended = threading.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.set()
            raise

    code = "import tools\ntry:\n    tools.slow()\nexcept tools.ToolError as e:\n    print(e.kind)"
    run = server.run(code, image="core", tools=[belljar.Tool(slow, timeout=0.2)])
    assert run.stdout == "timeout\n"
    assert ended.wait(5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_needs_its_own_connection(server):
    child = os.fork()
    if child == 0:
        try:
            server.run("1")
        except belljar.ForkedError:
            os._exit(3)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_what_a_server_does_not_do(server, tmp_path):
    with pytest.raises(belljar.RefusedError, match="files"):
        server.run("1", mounts={"/data": tmp_path})
    with pytest.raises(belljar.ServerError, match="snapshots"):
        server.snapshots()
    with pytest.raises(belljar.ServerError, match="lockdown"):
        server.lockdown()
    with pytest.raises(TypeError, match="--store"):
        belljar.StoredSessions(f"file://{tmp_path}", server)


def test_an_agent_works_on_a_server(server):
    async def chat(messages):
        return next(replies)

    replies = iter([code("total = add(40, 2)\nprint(total)"), "It is 42."])

    def add(a: int, b: int) -> int:
        return a + b

    with Agent(chat, runtime=server, tools=[add]) as agent:
        result = agent.run("Add.")
    assert (result.answer, result.success) == ("It is 42.", True)


def test_half_of_a_file_is_no_file(tmp_path):
    outcome = {**OUTCOME, "run": "1", "files": [{"path": "out", "size": 100}]}
    with Raw(raw(outcome), raw(b"half", 100)) as server:
        runtime = belljar.connect(server.url)
        run = runtime.run("1")
        with pytest.raises(belljar.ServerError) as caught:
            run.save(tmp_path)
    assert caught.value.code == "server.lost"
    assert list(tmp_path.iterdir()) == []


def test_saving_leaves_the_mask_of_the_process_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("other threads create files, too"))
    outcome = {**OUTCOME, "run": "1", "files": [{"path": "out", "size": 1}]}
    with Raw(raw(outcome), raw(b"x")) as server:
        belljar.connect(server.url).run("1").save(tmp_path)
    (tmp_path / "plain").touch()
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirection_is_not_followed_and_is_no_answer(status):
    moved = status, {"Location": "http://127.0.0.1:1/"}, "moved"
    with Scripted((201, {}, SESSION), moved) as server, belljar.connect(server.url) as runtime:
        session = runtime.session()
        for call in (lambda: session.files.read("x"), lambda: session.run("1")):
            with pytest.raises(belljar.ServerError) as caught:
                call()
            assert caught.value.code == "server.answer"
        assert len(server.seen) == 3


def test_answers_have_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(_http, "_MOST_READ", 2000)
    monkeypatch.setattr(_remote, "MOST_COPIED", 2000)
    outcome = {**OUTCOME, "run": "1", "files": [{"path": f"{n}", "size": 1} for n in range(2)]}
    large = b"x" * 2001
    with Scripted((200, {}, large)) as server, belljar.connect(server.url) as runtime:
        for call in (runtime.sessions, lambda: runtime.run("1", on_event=print)):
            with pytest.raises(belljar.ServerError) as caught:
                call()
            assert caught.value.code == "server.answer"
    small = b"data: " + b"x" * 1000 + b"\n"
    with Scripted((200, {}, small * 2)) as server, belljar.connect(server.url) as runtime:
        with pytest.raises(belljar.ServerError) as caught:
            runtime.run("1", on_event=print)
        assert caught.value.code == "server.answer"
    answers = (200, {}, outcome), (200, {}, b"x" * 1200)
    with Scripted(*answers) as server, belljar.connect(server.url) as runtime:
        with pytest.raises(belljar.ServerError) as caught:
            runtime.run("1").save(tmp_path)
        assert caught.value.code == "server.answer"
    assert [path.name for path in tmp_path.iterdir()] == ["0"]
    deep = b"[" * 100_000
    monkeypatch.undo()
    with Scripted((200, {}, deep)) as server, belljar.connect(server.url) as runtime:
        with pytest.raises(belljar.ServerError) as caught:
            runtime.sessions()
        assert caught.value.code == "server.answer"


def test_a_page_is_no_answer():
    with Raw(raw(b"<html>sign in</html>")) as server, belljar.connect(server.url) as runtime:
        with pytest.raises(belljar.ServerError) as caught:
            runtime.sessions()
        assert caught.value.code == "server.answer"


def test_errors_show_no_key():
    with pytest.raises(belljar.RefusedError) as caught:
        belljar.connect("http://127.0.0.1:1", "belljar_\nsecret")
    assert caught.value.reasons[0].field == "key"
    assert "secret" not in str(caught.value)
    with pytest.raises(belljar.RefusedError) as caught:
        belljar.connect("https://secret@example.org")
    assert "secret" not in str(caught.value)
    # Files of keys end with a line break.
    with Scripted((200, {}, {"sessions": []})) as server:
        with belljar.connect(server.url, "belljar_key\n") as runtime:
            assert runtime.sessions() == []
        assert server.seen[0][2]["Authorization"] == "Bearer belljar_key"


def test_a_file_that_grows_is_sent_as_long_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_bytes(b"start")
    length = _http._length

    def then_grows(file):
        found = length(file)
        path.write_bytes(b"start" + b"GET / HTTP/1.1\r\n\r\n")
        return found

    monkeypatch.setattr(_http, "_length", then_grows)
    entry = {"path": "log", "kind": "file", "size": 5}
    answers = (201, {}, SESSION), (200, {}, entry), (200, {}, {"entries": []})
    with Scripted(*answers) as server, belljar.connect(server.url, keep_sessions=True) as runtime:
        session = runtime.session()
        session.files.write("log", path)
        assert list(session.files.list()) == []
        assert [method for method, *_ in server.seen] == ["POST", "PUT", "GET"]
        assert server.seen[1][3] == b"start"


def test_paths_stay_in_their_session():
    with Scripted((201, {}, SESSION)) as server, belljar.connect(server.url) as runtime:
        session = runtime.session()
        with pytest.raises(belljar.SessionError):
            session.files.remove("../../another")
        assert len(server.seen) == 1


async def test_a_call_that_is_cancelled_while_it_connects_is_not_sent(monkeypatch):
    connecting, cancelled = threading.Event(), threading.Event()
    connect = _http.Joined.connect

    def slowly(connection):
        connecting.set()
        assert cancelled.wait(10)
        connect(connection)

    monkeypatch.setattr(_http.Joined, "connect", slowly)
    with Scripted((200, {}, OUTCOME)) as server, belljar.connect(server.url) as runtime:
        task = asyncio.ensure_future(runtime.arun("1"))
        await asyncio.to_thread(connecting.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cancelled.set()
        await asyncio.sleep(0.2)
        assert server.seen == []


def test_the_garbage_collector_may_drop_files_anywhere():
    from concurrent.futures import thread

    outcome = {**OUTCOME, "run": "1"}
    with Scripted((200, {}, outcome)) as server, belljar.connect(server.url) as runtime:
        runs = [runtime.run("1")]
        # As inside of `submit` of any pool of threads.
        with thread._global_shutdown_lock:
            dropping = threading.Thread(target=runs.clear, daemon=True)
            dropping.start()
            dropping.join(5)
            assert not dropping.is_alive()
        runtime.close()
        assert [method for method, *_ in server.seen] == ["POST", "DELETE"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_that_closes_ends_no_call_of_its_parent():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        runtime = belljar.connect(f"http://127.0.0.1:{listener.getsockname()[1]}")
        runs = []
        running = threading.Thread(target=lambda: runs.append(runtime.run("1")))
        running.start()
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            child = os.fork()
            if child == 0:
                runtime.close()
                os._exit(0)
            os.waitpid(child, 0)
            connection.sendall(raw(OUTCOME))
            running.join(10)
        assert runs[0].success
