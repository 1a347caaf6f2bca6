"""The runtime: everything that runs share, and the way in."""

from __future__ import annotations

import os
from _thread import allocate_lock

from . import _belljar
from ._handle import Handle
from ._options import RUN_OPTIONS, SESSION_OPTIONS, own_of, restored, split, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Literal

    from typing_extensions import Self, Unpack

    from ._images import Images
    from ._outcome import CheckReport, SessionInfo
    from ._run import Run
    from ._session import Session
    from ._types import RestoreOptions, Rules, RunOptions, SessionOptions, Settings


_SETTINGS = frozenset(
    "bundle bundle_hash cache ceilings concurrency file_memory limits memory progress queue "
    "sessions temp_dir wheel".split()
)


class Runtime(Handle):
    """Runs code in fresh sandboxes, and holds what they share. Any thread and any event loop may
    use it; it belongs to the process that made it.

    Making one takes some milliseconds with a warm cache. The very first one on a machine downloads
    Python for WASI and compiles it, which takes about two minutes; ``progress`` tells: ``None``
    shows it in a terminal or a notebook, ``False`` nowhere, a function is called with a sentence
    and the seconds that it usually takes, and with None at the end.

    With ``bundle``, the directory of one that ``belljar bundle`` made, nothing is downloaded,
    compiled or kept; ``bundle_hash`` demands the one with that hash.

    Other settings: ``cache``, ``wheel``, ``temp_dir`` (paths), ``file_memory`` (bytes of sandboxes'
    files that are kept in memory, by default 256 MiB), ``concurrency`` (runs at once, by default
    four for each core), ``queue`` (runs that may wait), ``limits`` and ``ceilings`` (limits of runs
    that ask for none, and the most one may ask for), ``sessions`` (bounds), ``memory``.
    """

    __slots__ = ("_core", "_known")

    def __init__(self, **settings: Unpack[Settings]) -> None:
        held, progress = _settled(settings)
        self._take(_belljar.Runtime.build(held, progress, False))

    @classmethod
    async def abuild(cls, **settings: Unpack[Settings]) -> Self:
        """Makes a runtime without holding up the event loop."""
        held, progress = _settled(settings)
        runtime = cls.__new__(cls)
        runtime._take(await _belljar.Runtime.build(held, progress, True))
        return runtime

    def _take(self, core: _belljar.Runtime) -> None:
        import weakref

        self._core = core
        self._known: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
        _LIVE.add(self)

    def run(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """Runs code in a fresh sandbox, and waits for it.

        ``image`` names the image (by default chosen by the imports); ``files`` are placed in the
        workspace (path to text, bytes, or the path of a file to copy), ``mounts`` are directories
        that the code can read (where it sees them, to where they are), ``variables`` are there as
        themselves; ``stdin``, ``env``, ``run_env``, ``args``, ``aliases``, ``cwd``.

        ``timeout`` (seconds), ``memory_mb``, ``fuel``, ``output_bytes``, ``workspace_mb`` and
        ``max_files`` limit it. ``policy`` is ``"open"``, ``"strict"`` or lists of one's own.

        ``result`` names the variable to return (by default ``result``), which arrives as itself
        unless ``typed`` is False; ``echo`` prints expressions; ``capture`` says what is brought
        back; ``on_event`` is called with events as they happen. ``tools`` are functions that the
        code may call, within ``tool_limits``; ``input`` answers ``input()``. ``deterministic`` or
        ``seed`` make it repeatable. ``dialect``, ``threads``.

        What the code does wrong is in the run's ``error``. Ctrl-C interrupts the code.
        """
        asked, extras = split(options, "run", RUN_OPTIONS)
        return _made(self._core.run(code, asked, extras, False))

    async def arun(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """The same for an event loop. Cancelled, the run is dropped."""
        asked, extras = split(options, "arun", RUN_OPTIONS)
        return _made(await self._core.run(code, asked, extras, True))

    def check(self, code: str, policy: Literal["open", "strict"] | Rules = "open") -> CheckReport:
        """Looks at code without running it: what a policy forbids, and what it imports in vain."""
        from ._outcome import CheckReport

        return CheckReport(self._core.check(code, _policy(policy), False))

    async def acheck(
        self, code: str, policy: Literal["open", "strict"] | Rules = "open"
    ) -> CheckReport:
        """The same for an event loop."""
        from ._outcome import CheckReport

        return CheckReport(await self._core.check(code, _policy(policy), True))

    def session(self, **options: Unpack[SessionOptions]) -> Session:
        """Starts a session: an interpreter with its workspace, kept from run to run.

        Options that a run has hold for all of its runs. Besides: ``init_code`` runs first;
        ``lifetime`` and ``idle`` (seconds), ``total_fuel``; ``history`` (runs, bytes); ``client``,
        ``labels``; ``lease`` (seconds, or a pair with what becomes of it then, ``"close"`` or
        ``"suspend"``). The image is ``data`` unless another is named.

        It is closed at the end of a ``with`` block, by ``close``, or with its last handle.
        """
        return self._handle(self._core.session(*_session(options), False))

    async def asession(self, **options: Unpack[SessionOptions]) -> Session:
        """The same for an event loop."""
        return self._handle(await self._core.session(*_session(options), True))

    def session_for(self, client: str, /, **options: Unpack[SessionOptions]) -> Session:
        """A client's own session, made with these options if it has none."""
        return self._handle(self._core.for_client(client, *_session(options), False))

    async def asession_for(self, client: str, /, **options: Unpack[SessionOptions]) -> Session:
        """The same for an event loop."""
        return self._handle(await self._core.for_client(client, *_session(options), True))

    def session_from(self, snapshot: str) -> Session:
        """Starts a session from a snapshot."""
        return self._handle(self._core.session_from(snapshot, False))

    async def asession_from(self, snapshot: str) -> Session:
        """The same for an event loop."""
        return self._handle(await self._core.session_from(snapshot, True))

    def restore(
        self, checkpoint: str | os.PathLike[str] | bytes, **options: Unpack[RestoreOptions]
    ) -> Session:
        """Starts a session from a checkpoint: the path of a file, or its bytes.

        What a checkpoint does not hold is given again: ``mounts``, ``tools``, ``id``, ``client``,
        ``lease``. Whoever wrote it chose its limits and its policy: ``lifetime`` and ``idle``
        (seconds) and ``total_fuel`` bound them, ``policy`` replaces it.
        """
        own = restored("restore", options)
        return self._handle(self._core.restore(checkpoint, own, False))

    async def arestore(
        self, checkpoint: str | os.PathLike[str] | bytes, **options: Unpack[RestoreOptions]
    ) -> Session:
        """The same for an event loop."""
        own = restored("arestore", options)
        return self._handle(await self._core.restore(checkpoint, own, True))

    def find(self, id: str) -> Session:
        """The session with that id."""
        return self._handle(self._core.find(id))

    def sessions(self) -> list[SessionInfo]:
        """All sessions, the oldest first."""
        from ._outcome import SessionInfo

        return [SessionInfo(info) for info in self._core.sessions()]

    def snapshots(self) -> list[str]:
        """The names of all snapshots."""
        return self._core.snapshots()

    def drop_snapshot(self, name: str) -> None:
        """Forgets a snapshot."""
        self._core.drop_snapshot(name)

    @property
    def images(self) -> Images:
        """The images that runs start from."""
        from ._images import Images

        return Images(self._core.images())

    def close(self) -> None:
        """Ends everything that runs, and the runtime's threads. Calls after it are errors."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<belljar.Runtime at {id(self):#x}>"

    def _handle(self, core: _belljar.Session) -> Session:
        from ._session import made

        known = self._known.get(core.id)
        if known is not None:
            return known
        session = made(core, self)
        self._known[core.id] = session
        return session


def run(code: str, **options: Unpack[RunOptions]) -> Run:
    """Runs code in a fresh sandbox of the default runtime; options as for :meth:`Runtime.run`."""
    return default_runtime().run(code, **options)


async def arun(code: str, **options: Unpack[RunOptions]) -> Run:
    """The same for an event loop."""
    runtime = _default
    if runtime is None:
        import asyncio

        runtime = await asyncio.to_thread(default_runtime)
    return await runtime.arun(code, **options)


def default_runtime() -> Runtime:
    """The runtime that :func:`run` uses: made when it is first asked for, one in each process."""
    global _default
    if _default is None:
        with _making:
            if _default is None:
                _default = Runtime()
    return _default


def existing_default() -> Runtime | None:
    """The default runtime, if there is one by now."""
    return _default


_default: Runtime | None = None
_making = allocate_lock()


class _Live:
    """The runtimes of this process, to be closed before the interpreter is gone."""

    def __init__(self) -> None:
        self._all: set[Any] = set()

    def add(self, runtime: Runtime) -> None:
        import weakref

        self._all.add(weakref.ref(runtime, self._all.discard))

    def close(self) -> None:
        for reference in list(self._all):
            runtime = reference()
            if runtime is not None:
                runtime.close()


_LIVE = _Live()


def _at_exit() -> None:
    _LIVE.close()


def _in_child() -> None:
    """A forked child makes a default runtime of its own."""
    global _default, _making, _LIVE
    _default, _making, _LIVE = None, allocate_lock(), _Live()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _register() -> None:
    import atexit

    atexit.register(_at_exit)


_register()


def _made(parts: tuple[Any, Any, Any]) -> Run:
    global _made
    from ._run import made

    _made = made
    return made(parts)


def _settled(settings: Settings) -> tuple[dict[str, Any], Any]:
    held: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in _SETTINGS:
            raise TypeError(unknown("Runtime", name, _SETTINGS))
        if value is not None and name != "progress":
            held[name] = value
    return held, _progress(settings.get("progress"))


def _progress(asked: Any) -> Any:
    if asked is False:
        return None

    told: Any = None

    def tell(begins: bool, text: str, subject: str, seconds: int) -> None:
        from ._progress import teller

        nonlocal told
        told = told or (asked if callable(asked) else teller())
        told(f"{text} {subject}".rstrip() if begins else None, seconds)

    return tell


def _policy(policy: Any) -> Any:
    asked, _ = split({"policy": policy}, "check", RUN_OPTIONS)
    return (asked or {"policy": "open"})["policy"]


def _session(options: Any) -> tuple[str, Any, Any, Any]:
    options = dict(options)
    for name in options:
        if name not in SESSION_OPTIONS:
            raise TypeError(unknown("session", name, SESSION_OPTIONS))
    own = own_of(options)
    code = options.pop("init_code", None) or ""
    options["image"] = options.get("image") or "data"
    asked, extras = split(options, "session", RUN_OPTIONS)
    return code, asked, extras, own
