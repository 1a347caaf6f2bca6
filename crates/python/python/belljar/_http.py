"""Requests to a server: connections, retries, and calls that another thread may abort."""

from __future__ import annotations

import http.client
import json
import os
import random
import select
import socket
import threading
import time
import weakref
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote, urlsplit

from ._errors import BelljarError, make

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Future, ThreadPoolExecutor

# Seconds to connect.
_CONNECT = 10.0
# Seconds after which an unused connection is not used again; the server closes it after 30.
_IDLE = 20.0
# Probes of a silent connection: seconds before the first, seconds between them, and their number.
_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 6}
# Seconds before the second attempt; doubled for each further one.
_BACKOFF = 0.1
# The longest wait before another attempt. A server that asks for more is not asked again.
_LONGEST = 30.0
# How long a creation that is under way is asked for, in seconds, if its answer may take any time.
_LONGEST_CREATION = 600.0
# How long closing waits until the server knows what has ended, in seconds.
_FAREWELL = 5.0
# Asynchronous calls at once; more wait.
_THREADS = 256
PIECE = 256 << 10
# Bytes of an answer in memory (larger files can be read in parts), and of all that one call copies
# into files. Both are above what a server sends with its usual ceilings.
_MOST_READ = 4 << 30
MOST_COPIED = 64 << 30
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False)
# The link's own timeout.
_USUAL = -1.0


class Call:
    """A call of the caller's, which may take several requests. Any thread may abort it."""

    __slots__ = ("_lock", "_socket", "aborted", "loop", "stream")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.aborted = threading.Event()
        self.loop = loop
        # The path of the stream that the server keeps for it.
        self.stream: str | None = None
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def hold(self, connection: http.client.HTTPConnection) -> None:
        """Names the connection that an abort ends."""
        with self._lock:
            # An answer with `Connection: close` takes the socket from its connection.
            self._socket = connection.sock
            if self.aborted.is_set():
                raise Aborted

    def release(self) -> None:
        """The connection is free for other calls."""
        with self._lock:
            self._socket = None

    def abort(self) -> None:
        """Ends the call: the server interrupts its run."""
        with self._lock:
            self.aborted.set()
            if self._socket is not None:
                try:
                    # That of `SSLSocket` would first turn encryption off for other threads.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
                except (OSError, ValueError):
                    pass


class Aborted(Exception):
    """The caller does not wait for the call any more."""


class Answer:
    """An answer whose head has arrived."""

    __slots__ = ("_call", "_connection", "_has_body", "_is_read", "_link", "_response", "status")

    def __init__(self, link: Link, call: Call, connection: Joined, has_body: bool) -> None:
        self._link = link
        self._call = call
        self._connection = connection
        self._response = connection.getresponse()
        if _is_cut(self._response):
            raise http.client.IncompleteRead(b"")
        self._has_body = has_body
        self._is_read = False
        self.status = self._response.status

    def header(self, name: str) -> str | None:
        return self._response.getheader(name)

    def read(self) -> bytes:
        """The whole body."""
        return b"".join(self._pieces(_MOST_READ))

    def json(self) -> Any:
        """The whole body, from JSON."""
        data = self.read()
        try:
            return json.loads(data) if data else None
        except (ValueError, RecursionError):
            raise self._link.strange(self.status) from None

    def copy(self, to: BinaryIO, most: int) -> int:
        """Writes the body to a file as it arrives. Returns its size."""
        return sum(map(to.write, self._pieces(most)))

    def _pieces(self, most: int) -> Iterator[bytes]:
        """The body as it arrives, of at most so many bytes."""
        while True:
            try:
                piece = self._response.read(PIECE)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self.broken(error) from error
            if not piece:
                break
            most -= len(piece)
            if most < 0:
                raise self._strange()
            yield piece
        # Unlike `read()`, `read(n)` does not say that the connection was lost.
        if left := getattr(self._response, "length", None):
            raise self.broken(http.client.IncompleteRead(b"", left))
        self._done()

    def events(self) -> Iterator[tuple[int, str, Any]]:
        """Server-sent events: each number (0 without one), type, and its data from JSON."""
        if self._connection.sock is not None:
            # The server sends something every 15 seconds.
            self._connection.sock.settimeout(self._link.timeout)
        number, name, data, left = 0, "", [], _MOST_READ
        while True:
            try:
                line = self._response.readline(left + 1)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self.broken(error) from error
            left -= len(line)
            if left < 0:
                raise self._strange()
            text = line.rstrip(b"\r\n")
            if text.startswith(b"data:"):
                data.append(text[5:])
            elif text.startswith(b"event:"):
                name = text[6:].strip().decode(errors="replace")
            elif text.startswith(b"id:"):
                # Longer ones are no numbers of events.
                digits = text[3:].strip()[:20]
                number = int(digits) if digits.isdigit() else 0
            elif line and not text and data:
                try:
                    told = json.loads(b"\n".join(data))
                except (ValueError, RecursionError):
                    raise self._strange() from None
                yield number, name, told
                number, name, data = 0, "", []
            if not text:
                left = _MOST_READ
            if not line:
                break
        self._done()

    def broken(self, error: Exception) -> Exception:
        """Why the body ended early."""
        self.close()
        if self._call.aborted.is_set():
            return Aborted()
        return self._link.lost(error, True, self._connection)

    def _strange(self) -> BelljarError:
        self.close()
        return self._link.strange(self.status)

    def _done(self) -> None:
        self._is_read = True
        self._call.release()
        # A server that refuses a body may close the connection instead of reading the rest.
        is_whole = self.status < 400 or not self._has_body
        if is_whole and self._response.isclosed() and not self._response.will_close:
            self._link.give_back(self._connection)
        else:
            self._connection.close()

    def close(self) -> None:
        """Drops an answer that was not read to its end, with its connection."""
        if not self._is_read:
            self._is_read = True
            self._call.release()
            self._response.close()
            self._connection.close()


class Link:
    """A server: its address, its key, and open connections to it."""

    def __init__(
        self,
        url: str,
        key: str | None,
        timeout: float | None,
        retries: int,
        connect: Callable[[], Joined],
        base: str = "",
    ) -> None:
        self.url = url
        self.timeout = timeout
        self.retries = retries
        self._connect = connect
        self._base = base
        self._headers = {"Accept": "application/json", "User-Agent": "belljar-python"}
        if key := (key or "").strip():
            # An error must not show it.
            if not (key.isascii() and key.isprintable()):
                message = "the key has characters that no key has"
                raise make(message, "refused", reasons=[("key", "invalid", message)])
            self._headers["Authorization"] = f"Bearer {key}"
        self._lock = threading.Lock()
        self._idle: list[tuple[float, Joined]] = []
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._dropped: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._dropper: threading.Thread | None = None
        self._calls: set[Call] = set()
        # What `later` does.
        self._errands: set[Future[None]] = set()
        self._process = os.getpid()
        self.is_closed = False
        # Nothing is sent any more.
        self._is_over = False

    def do(self, work: Callable[[Call], Any], later: bool) -> Any:
        """Does work here and now, or returns what an event loop awaits."""
        self.check()
        return self._awaited(work) if later else self._done(work, Call())

    def _done(self, work: Callable[[Call], Any], call: Call) -> Any:
        self._calls.add(call)
        try:
            return work(call)
        except Aborted:
            self.check()
            raise
        except BaseException:
            # Ctrl-C, or a function for events that failed.
            call.abort()
            raise
        finally:
            self._calls.discard(call)

    async def _awaited(self, work: Callable[[Call], Any]) -> Any:
        import asyncio
        import contextvars

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError("no event loop runs on this thread") from None
        call = Call(loop)
        run = contextvars.copy_context().run
        try:
            return await loop.run_in_executor(self._pool("calls"), run, self._done, work, call)
        except asyncio.CancelledError:
            call.abort()
            raise

    def later(self, work: Callable[[], object]) -> None:
        """Does small work on another thread. The caller does not learn that it failed."""
        if self._is_over or self._process != os.getpid() or self.is_gone:
            return

        def quietly() -> None:
            try:
                work()
            except (BelljarError, Aborted):
                pass

        try:
            errand = self._pool("answers").submit(quietly)
        except RuntimeError:
            # The interpreter exits.
            return
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    def drop(self, work: Callable[[], object]) -> None:
        """Does small work on another thread, after `expect_drops`. Takes no lock, because the
        garbage collector may call it while this thread holds one.
        """
        self._dropped.put(lambda: self.later(work))

    def expect_drops(self) -> None:
        """Starts the thread for `drop`."""
        with self._lock:
            if self._dropper is None:
                # It keeps no link alive, and ends with it.
                weakref.finalize(self, self._dropped.put, None)
                self._dropper = threading.Thread(
                    target=_work, args=(self._dropped,), name="belljar-drops", daemon=True
                )
                self._dropper.start()

    def _pool(self, name: str) -> ThreadPoolExecutor:
        with self._lock:
            if name not in self._pools:
                from concurrent.futures import ThreadPoolExecutor

                self._pools[name] = ThreadPoolExecutor(_THREADS, f"belljar-{name}")
            return self._pools[name]

    def check(self) -> None:
        """Raises if the link was closed, or belongs to the process before a fork."""
        if self._process != os.getpid():
            message = "the connection belongs to the process before the fork: make one in this one"
            raise make(message, "forked")
        if self.is_closed:
            raise make("the connection to the server was closed", "closed")

    def close(self) -> None:
        """Aborts all calls, and closes the connections. Later calls raise."""
        if self._process != os.getpid():
            # The connections are those of the process before the fork, which still uses them.
            self.is_closed = self._is_over = True
            return
        self.is_closed = True
        # Nothing is asked for twice any more.
        self.retries = 0
        for call in list(self._calls):
            stream, call.stream = call.stream, None
            call.abort()
            if stream is not None:
                self.later(partial(self.end, stream))
        if self._dropper is not None:
            self._dropped.put(None)
            self._dropper.join()
        if errands := list(self._errands):
            from concurrent.futures import wait

            # Runs and sessions end, and files are removed, whose last handles have gone.
            wait(errands, timeout=_FAREWELL)
        with self._lock:
            self._is_over = True
            idle, self._idle = self._idle, []
            pools, self._pools = self._pools, {}
        for _, connection in idle:
            connection.close()
        for pool in pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    def ask(
        self,
        call: Call,
        method: str,
        path: str,
        body: bytes | Callable[[], BinaryIO] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        repeatable: bool = True,
        silence: float | None = _USUAL,
    ) -> Answer:
        """Sends a request until it is answered, and raises what the server refuses.

        A request is sent again if the server was not reached, answers that it is busy, or, where
        ``repeatable``, if the connection was lost. ``silence`` is how long the answer may take.
        """
        wait = self.timeout if silence == _USUAL else silence
        begun = time.monotonic()
        attempt = 0
        while True:
            sent = False
            connection = self._take()
            try:
                call.hold(connection)
                if connection.sock is None:
                    connection.timeout = _CONNECT
                    connection.connect()
                    assert connection.sock is not None
                    _notice_loss(connection.sock)
                    call.hold(connection)
                sent = True
                return self._checked(
                    self._send(call, connection, method, path, body, headers, wait)
                )
            except _Again as again:
                waited = time.monotonic() - begun
                is_patient = again.is_under_way and waited < (wait or _LONGEST_CREATION)
                if again.seconds is None or (attempt >= self.retries and not is_patient):
                    raise again.error from None
                pause = max(again.seconds, pause_after(attempt))
            except (OSError, http.client.HTTPException) as error:
                call.release()
                connection.close()
                if call.aborted.is_set():
                    raise Aborted from None
                is_over = isinstance(error, TimeoutError) and sent
                if attempt >= self.retries or is_over or (sent and not repeatable):
                    raise self.lost(error, sent, connection) from error
                pause = pause_after(attempt)
            except BaseException:
                call.release()
                connection.close()
                if call.aborted.is_set():
                    raise Aborted from None
                raise
            attempt += 1
            if call.aborted.wait(pause):
                raise Aborted

    def json(self, call: Call, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Sends JSON, and returns the answer's."""
        headers = dict(options.pop("headers", None) or {})
        if body is not None:
            body = body if isinstance(body, bytes) else dumped(body)
            headers["Content-Type"] = "application/json"
        return self.ask(call, method, path, body, headers, **options).json()

    def end(self, stream: str) -> None:
        """Ends a stream, and interrupts its run."""
        try:
            self.json(Call(), "DELETE", stream, silence=2.0)
        except (BelljarError, Aborted):
            # The server ends it after a while without a connection.
            pass

    def _take(self) -> Joined:
        if self._is_over or self._process != os.getpid():
            self.check()
        oldest = time.monotonic() - _IDLE
        while True:
            with self._lock:
                if not self._idle:
                    return self._connect()
                since, connection = self._idle.pop()
            # A connection that can be read was closed by the server.
            if since > oldest and connection.sock and not _can_be_read(connection.sock):
                return connection
            connection.close()

    def give_back(self, connection: Joined) -> None:
        with self._lock:
            if not self._is_over:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()

    def _send(
        self,
        call: Call,
        connection: Joined,
        method: str,
        path: str,
        body: bytes | Callable[[], BinaryIO] | None,
        headers: Mapping[str, str] | None,
        silence: float | None,
    ) -> Answer:
        assert connection.sock is not None
        headers = {**self._headers, **(headers or {})}
        connection.sock.settimeout(silence)
        path = self._base + path
        try:
            if callable(body):
                with body() as file:
                    length = _length(file)
                    headers = {**headers, "Content-Length": str(length)}
                    connection.request(method, path, _Start(file, length), headers)
            else:
                connection.request_joined(method, path, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a body answers before it has read all of it.
            pass
        return Answer(self, call, connection, body is not None)

    def _checked(self, answer: Answer) -> Answer:
        # A redirection is not followed: it may lead to another server.
        if 200 <= answer.status < 300:
            return answer
        after = answer.header("Retry-After")
        error = self._refused(answer)
        seconds = None
        is_under_way = answer.status == 409 and error.code == "idempotency_key"
        if answer.status in (429, 503) and after is not None:
            try:
                seconds = float(after)
            except ValueError:
                seconds = 1.0
        elif is_under_way:
            seconds = _BACKOFF
        if seconds is not None and not seconds <= _LONGEST:
            seconds = None
        raise _Again(error, seconds, is_under_way)

    def _refused(self, answer: Answer) -> BelljarError:
        try:
            return refused(json.loads(answer.read()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return self.strange(answer.status)

    def strange(self, status: int) -> BelljarError:
        """The exception for an answer of something else."""
        message = f"{self.url} answered {status}, and not as a belljar server does"
        return make(message, "server.answer", "machine")

    @property
    def is_gone(self) -> bool:
        """Whether everything is lost that the other end had for this one."""
        return False

    def lost(self, error: Exception, sent: bool, connection: Joined) -> BelljarError:
        """The exception for a connection that failed."""
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(error, TimeoutError) and sent:
            return make(f"{self.url} did not answer in time", "server.timeout", "machine")
        if sent:
            message = f"the connection to {self.url} was lost: {why}"
            return make(message, "server.lost", "machine")
        hint = "start it with: belljar serve; or check the URL"
        return make(f"{self.url} cannot be reached: {why}", "server.unreachable", "machine", hint)


class _Again(Exception):
    """The server refuses, and the seconds after which it may not, if it says so."""

    def __init__(self, error: BelljarError, seconds: float | None, is_under_way: bool) -> None:
        self.error = error
        self.seconds = seconds
        self.is_under_way = is_under_way


def refused(problem: Mapping[str, Any]) -> BelljarError:
    """The exception for a problem that the server tells."""
    reasons = [(one["field"], one["kind"], one["message"]) for one in problem.get("reasons", ())]
    hint = problem.get("hint")
    return make(problem["detail"], problem["code"], problem["blame"], hint, reasons)


def dumped(value: Any) -> bytes:
    """JSON, as short as it can be."""
    return _ENCODER.encode(value).encode()


def pause_after(attempt: int) -> float:
    jitter: float = random.uniform(0.75, 1.25)  # noqa: S311
    return min(_BACKOFF * 2.0 ** min(attempt, 10), 5.0) * jitter


def _work(queue: SimpleQueue[Callable[[], None] | None]) -> None:
    while (work := queue.get()) is not None:
        work()
        del work


def _length(file: BinaryIO) -> int:
    at = file.tell()
    length = file.seek(0, os.SEEK_END) - at
    file.seek(at)
    return length


def _is_cut(response: http.client.HTTPResponse) -> bool:
    """Whether a head ends early, which `http.client` takes for its end: no body is announced."""
    if response.version != 11 or response.length is not None:
        return False
    is_chunked = response.getheader("Transfer-Encoding") is not None
    return not is_chunked and (response.getheader("Connection") or "").lower() != "close"


class _Start:
    """The first bytes of a file. What is appended meanwhile would be another request."""

    def __init__(self, file: BinaryIO, length: int) -> None:
        self._file = file
        self._left = length

    def read(self, size: int = PIECE, /) -> bytes:
        piece = self._file.read(min(size, self._left))
        if not piece and self._left:
            raise OSError("the file became shorter while it was sent")
        self._left -= len(piece)
        return piece


def _can_be_read(held: socket.socket) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(held, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([held], [], [], 0)[0])


class Joined(http.client.HTTPConnection):
    """Sends the head of a request together with a body of bytes, in one packet if they fit."""

    _held: list[bytes] | None = None

    def send(self, data: Any) -> None:
        if self._held is None:
            super().send(data)
        else:
            self._held.append(data)

    def request_joined(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> None:
        self._held = []
        try:
            self.request(method, path, body, headers)
        finally:
            held, self._held = self._held, None
        self.send(b"".join(held))


def _notice_loss(sock: socket.socket) -> None:
    """Has the system end the connection when the server's machine is gone, also where an answer may
    take any time.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        for name, value in _PROBES.items():
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _SecureConnection(Joined, http.client.HTTPSConnection):
    pass


class _UnixConnection(Joined):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", blocksize=PIECE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def connector(url: str, context: ssl.SSLContext | None) -> tuple[Callable[[], Joined], str]:
    """What makes connections to a URL, and the path below which the server is."""
    # What is before it may be a key.
    shown = url.rpartition("@")[2]
    message = f"{shown} is not the address of a server: http://HOST:PORT or https://HOST"
    invalid = make(message, "refused", reasons=[("url", "invalid", message)])
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise invalid from None
    if parts.scheme == "unix":
        path = unquote(parts.path)
        return lambda: _UnixConnection(path), ""
    host, base = parts.hostname or "", parts.path.rstrip("/")
    is_odd = parts.query or parts.fragment or parts.username or parts.password
    if parts.scheme not in ("http", "https") or not host or is_odd:
        raise invalid
    if parts.scheme == "http":
        return lambda: Joined(host, port, blocksize=PIECE), base

    def secure() -> Joined:
        nonlocal context
        if context is None:
            import ssl

            context = ssl.create_default_context()
        at = _proxy(host)
        if at is None:
            return _SecureConnection(host, port, blocksize=PIECE, context=context)
        connection = _SecureConnection(*at[:2], blocksize=PIECE, context=context)
        connection.set_tunnel(host, port, at[2])
        return connection

    return secure, base


def _proxy(host: str) -> tuple[str, int, dict[str, str]] | None:
    """The proxy for a host, and the headers for it, from ``HTTPS_PROXY`` and ``NO_PROXY``."""
    if not (os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")):
        return None
    from urllib.request import getproxies, proxy_bypass

    named = getproxies().get("https", "")
    if not named or proxy_bypass(host):
        return None
    parts = urlsplit(named if "://" in named else f"http://{named}")
    if parts.scheme != "http" or not parts.hostname:
        message = "HTTPS_PROXY is not the address of a proxy: http://HOST:PORT"
        raise make(message, "refused", reasons=[("HTTPS_PROXY", "invalid", message)])
    headers = {}
    if parts.username:
        from base64 import b64encode

        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = "Basic " + b64encode(pair.encode()).decode()
    return parts.hostname, parts.port or 80, headers
