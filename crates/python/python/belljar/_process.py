"""Runtimes whose code runs in a process of its own: the worker of a server, used like a server."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
import warnings
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from . import _belljar, _remote
from ._errors import BelljarError, make
from ._exit import close_at_exit
from ._http import PIECE, Answer, Call, Joined, Link

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PATHS = ("bundle", "cache", "temp_dir", "wheel")
# Seconds that the end of the process may be noticed after that of a connection to it.
_LAST_WORD = 2.0
# Seconds before another attempt to connect to a process that has too much to do.
_PAUSE = 0.01
# Seconds of such attempts.
_LONGEST_PAUSE = 30.0
_NAME = "belljar._belljar"
# Loads the extension alone: no path for modules, and no code of the user's. `work` closes what the
# process has inherited.
_PROGRAM = f"""
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
loader = ExtensionFileLoader({_NAME!r}, sys.argv[1])
module = module_from_spec(spec_from_loader({_NAME!r}, loader))
loader.exec_module(module)
module.work()
"""

# Held while sockets are made. A process that is forked meanwhile would keep the other ends open,
# and this one would not notice that the process has ended.
_making = threading.Lock()


def _in_child() -> None:
    global _making
    _making = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _making.acquire(),
        after_in_parent=lambda: _making.release(),
        after_in_child=_in_child,
    )


def started(
    settings: Mapping[str, Any], progress: Callable[..., object] | None
) -> _belljar.Runtime:
    """Starts a process for a runtime with these settings."""
    if not hasattr(_belljar, "Process"):
        message = "isolation='process' is not available on Windows"
        raise make(message, "process.start", "machine")
    # Reports invalid settings, and completes the cache, which the process only reads.
    engine = _belljar.Runtime.build(settings, progress, False)
    try:
        engine.set_up()
    finally:
        engine.close()
    link = ProcessLink(_plain(settings))
    # Sessions may outlive the caller's runtime.
    close_at_exit(link)
    runtime = Runtime(link, keep_sessions=False)
    try:
        ready = link.ask(Call(), "GET", "/readyz").read().decode()
    except BaseException:
        runtime.close()
        raise
    held = ready.partition("lock-down: ")[2].strip()
    if sys.platform == "linux" and "no " in held:
        message = f"the process that runs the code is not wholly locked down: {held}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    # Has the methods of the native half.
    return cast("_belljar.Runtime", runtime)


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in JSON, with paths that hold in every directory."""

    def path(value: Any) -> str:
        return os.fsdecode(os.path.abspath(value))

    held: dict[str, Any] = {
        name: path(value) if name in _PATHS else value for name, value in settings.items()
    }
    if "sessions" in held:
        held["sessions"] = dict(held["sessions"])
    if held.get("sessions", {}).get("dir") is not None:
        held["sessions"]["dir"] = path(held["sessions"]["dir"])
    return held


class Runtime(_remote.Runtime):
    """The process in the place of a server."""

    def lockdown(self, *_: object) -> Any:
        message = "code runs in a process of its own, which is locked down already"
        raise make(message, "server.unsupported")

    def close(self) -> None:
        # Its sessions end with the process.
        self.own.clear()
        self.link.close()


class ProcessLink(Link):
    """The process, which is started again by the first call after its end."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._starting = threading.Lock()
        self._worker: _belljar.Process | None = None
        # How the one before has ended.
        self._end: str | None = None
        connect = partial(_Connection, weakref.ref(self))
        super().__init__("the process", None, None, 0, connect)

    def connected(self) -> tuple[socket.socket, _belljar.Process]:
        """Connects to the process, and first starts it if it does not run."""
        ended: _belljar.Process | None = None
        until = time.monotonic() + _LONGEST_PAUSE
        while True:
            worker = self._running()
            try:
                with _making:
                    return socket.socket(fileno=worker.connect()), worker
            except BlockingIOError:
                if time.monotonic() > until:
                    message = f"{self.url} did not answer in time"
                    raise make(message, "server.timeout", "machine") from None
                time.sleep(_PAUSE)
            except OSError:
                # It has just ended, so another is started; once, if that ends too.
                if ended is not None or worker.ended(_LAST_WORD) is None:
                    raise
                ended = worker

    def _running(self) -> _belljar.Process:
        with self._starting:
            self.check()
            if self._worker is None or (end := self._worker.ended(0)) is not None:
                if self._worker is not None:
                    self._end = end
                self._worker = self._started()
                self._headers["Authorization"] = self._worker.authorization
            return self._worker

    def _started(self) -> _belljar.Process:
        if not sys.executable or getattr(sys, "frozen", False):
            message = "isolation='process' needs a Python interpreter in sys.executable"
            raise make(message, "process.start", "machine")
        arguments = ["-I", "-S", "-c", _PROGRAM, _belljar.__file__]
        try:
            with _making:
                return _belljar.Process(sys.executable, arguments, self._settings)
        except OSError as error:
            message = f"a process cannot be started: {error}"
            raise make(message, "process.start", "machine") from error

    @property
    def is_gone(self) -> bool:
        return self._worker is None or self._worker.ended(0) is not None

    def lost(self, error: Exception, sent: bool, connection: Joined) -> BelljarError:
        if self.is_closed:
            return make("the runtime was closed", "closed")
        assert isinstance(connection, _Connection)
        # There may be another by now.
        worker = connection.worker or self._worker
        if worker is None or (end := worker.ended(_LAST_WORD)) is None:
            return super().lost(error, sent, connection)
        hint = "the next call starts another one; sessions are lost"
        message = f"the process that runs the code has ended: {end}"
        return make(message, "process.ended", "engine", hint)

    def _refused(self, answer: Answer) -> BelljarError:
        error = super()._refused(answer)
        if error.code == "session.not_found" and self._end is not None:
            message = f"{error.args[0]}: the process before this one has ended: {self._end}"
            return make(message, error.code, "engine")
        return error

    def close(self) -> None:
        if self._process == os.getpid():
            self.is_closed = True
            with self._starting:
                if self._worker is not None:
                    self._worker.stop()
        super().close()


class _Connection(Joined):
    def __init__(self, link: weakref.ref[ProcessLink]) -> None:
        super().__init__("localhost", blocksize=PIECE)
        self._link = link
        self.worker: _belljar.Process | None = None

    def connect(self) -> None:
        link = self._link()
        # A link outlives its calls.
        assert link is not None
        self.sock, self.worker = link.connected()
