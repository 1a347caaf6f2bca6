"""The runtime: resources shared by runs, and the entry point."""

from __future__ import annotations

import os
from _thread import allocate_lock

from . import _belljar
from ._errors import BelljarError, unknown
from ._exit import close_at_exit
from ._handle import Handle
from ._options import RUN_OPTIONS, SESSION_OPTIONS, flat, own_of, restored, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Literal

    from typing_extensions import Self, Unpack

    from ._images import Images
    from ._outcome import CheckReport, SessionInfo
    from ._run import Run
    from ._session import Session
    from ._types import (
        LockdownReport,
        RestoreOptions,
        Rules,
        RunOptions,
        SessionOptions,
        Settings,
    )


_SETTINGS = frozenset(
    "bundle bundle_hash cache ceilings clock_resolution concurrency file_memory isolation limits "
    "memory progress queue sessions temp_dir wheel".split()
)

# Settings that say where the code and the images come from.
_SOURCES = ("bundle", "cache", "wheel")


class Runtime(Handle):
    """Runs code in fresh sandboxes, and holds the resources that they share. Any thread and event
    loop of the process may use it.

    Creating a runtime takes some milliseconds with a warm cache. The first one on a machine
    downloads Python for WASI and compiles it, which takes about two minutes. ``progress`` chooses
    how this is shown: ``None`` shows it in a terminal or a notebook, ``False`` hides it, and a
    function is called with a sentence and the usual seconds of each step, and with None at its end.

    With ``bundle``, a directory created by ``belljar bundle``, nothing is downloaded, compiled or
    cached; ``bundle_hash`` requires the bundle with that hash. The package ``belljar-data`` brings
    a bundle, which is used unless a bundle, a cache or a wheel is named, also in the environment.

    Other settings: ``cache``, ``wheel``, ``temp_dir`` (paths), ``file_memory`` (bytes of sandbox
    files kept in memory, by default 256 MiB), ``concurrency`` (concurrent runs, by default four for
    each core), ``queue`` (waiting runs), ``limits`` and ``ceilings`` (default and maximum limits of
    runs), ``sessions`` (limits on sessions), ``clock_resolution`` (step of the sandboxes' clocks,
    in nanoseconds), ``memory``.

    With ``isolation="process"``, code runs in another process, which is locked down: a crash or an
    escape costs that process alone. By default it is ``"none"``.
    """

    __slots__ = ("_core", "_known")

    def __init__(self, **settings: Unpack[Settings]) -> None:
        held, progress = _settled(settings)
        try:
            core = _core(held, progress)
        except BelljarError as error:
            core = _core(_without_bundle(held, settings, error), progress)
        self._take(core)

    @classmethod
    async def abuild(cls, **settings: Unpack[Settings]) -> Self:
        """Creates a runtime without blocking the event loop."""
        held, progress = _settled(settings)
        runtime = cls.__new__(cls)
        try:
            core = await _acore(held, progress)
        except BelljarError as error:
            core = await _acore(_without_bundle(held, settings, error), progress)
        runtime._take(core)
        return runtime

    def _take(self, core: _belljar.Runtime) -> None:
        import weakref

        self._core = core
        self._known: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
        close_at_exit(self)

    def run(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """Runs code in a fresh sandbox, and waits for it.

        ``image`` names the image (by default chosen by the imports); ``files`` are placed in the
        workspace (path to text, bytes, or the path of a file to copy); ``mounts`` are directories
        that the code can read (guest path to host path); ``variables`` are defined with their
        types; also ``stdin``, ``env``, ``run_env``, ``args``, ``aliases``, ``cwd``.

        Limits: ``timeout`` (seconds; None is as long as the runtime allows), ``memory_mb``,
        ``fuel``, ``output_bytes``, ``workspace_mb`` and ``max_files``, or ``limits``, a
        :class:`belljar.Limits` of these. ``policy`` is ``"open"``, ``"strict"`` or custom lists.

        ``result`` names the variable to return (by default ``result``), with its type unless
        ``typed`` is False; ``echo`` prints expressions; ``capture`` selects what is returned;
        ``on_event`` is called with events as they happen. ``tools`` are functions that the code may
        call, within ``tool_limits``; ``input`` answers ``input()``. ``deterministic`` or ``seed``
        make the run repeatable. Also ``dialect``, ``threads``.

        Errors of the code are in the run's ``error``. Ctrl-C interrupts the code.
        """
        asked, extras = split(options, "run", RUN_OPTIONS)
        return _made(self._core.run(code, asked, extras, False))

    async def arun(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """Asynchronous variant. Cancelling it stops the run."""
        asked, extras = split(options, "arun", RUN_OPTIONS)
        return _made(await self._core.run(code, asked, extras, True))

    def lockdown(
        self,
        *,
        read: Iterable[str | os.PathLike[str]] = (),
        write: Iterable[str | os.PathLike[str]] = (),
        connect: Iterable[int] = (),
        resolve_names: bool = False,
        end_children: bool = False,
    ) -> LockdownReport:
        """Locks this process down, with all its threads and for good.

        It keeps what runs need, open files, and what is named: ``read`` and ``write`` are files and
        directories, ``connect`` TCP ports; ``resolve_names`` keeps what resolving names takes, and
        ``end_children`` sending signals. Modules that are imported later must be below ``read``.
        A kernel may enforce nothing, and macOS and Windows less than Linux: see the report.
        """
        report: LockdownReport = self._core.lockdown(
            list(read), list(write), list(connect), resolve_names, end_children
        )
        return report

    def check(self, code: str, policy: Literal["open", "strict"] | Rules = "open") -> CheckReport:
        """Checks code without running it: violations of a policy, and imports that are not
        available.
        """
        from ._outcome import CheckReport

        return CheckReport(self._core.check(code, _policy(policy), False))

    async def acheck(
        self, code: str, policy: Literal["open", "strict"] | Rules = "open"
    ) -> CheckReport:
        """Asynchronous variant."""
        from ._outcome import CheckReport

        return CheckReport(await self._core.check(code, _policy(policy), True))

    def session(self, **options: Unpack[SessionOptions]) -> Session:
        """Starts a session: an interpreter with its workspace, kept from run to run.

        Options of :meth:`run` apply to all runs of the session. Further options: ``init_code`` runs
        first; ``lifetime`` and ``idle`` (seconds), ``total_fuel``; ``history`` (runs, bytes);
        ``client``, ``labels``; ``lease`` (seconds, or a pair with the action at its end,
        ``"close"`` or ``"suspend"``). The default image is ``data``.

        The session is closed at the end of a ``with`` block, by ``close``, or with its last handle.
        """
        return self._handle(self._core.session(*_session(options), False))

    async def asession(self, **options: Unpack[SessionOptions]) -> Session:
        """Asynchronous variant."""
        return self._handle(await self._core.session(*_session(options), True))

    def session_for(self, client: str, /, **options: Unpack[SessionOptions]) -> Session:
        """Returns a client's session, creating it with these options if necessary."""
        return self._handle(self._core.for_client(client, *_session(options), False))

    async def asession_for(self, client: str, /, **options: Unpack[SessionOptions]) -> Session:
        """Asynchronous variant."""
        return self._handle(await self._core.for_client(client, *_session(options), True))

    def session_from(self, snapshot: str) -> Session:
        """Starts a session from a snapshot."""
        return self._handle(self._core.session_from(snapshot, False))

    async def asession_from(self, snapshot: str) -> Session:
        """Asynchronous variant."""
        return self._handle(await self._core.session_from(snapshot, True))

    def restore(
        self, checkpoint: str | os.PathLike[str] | bytes, **options: Unpack[RestoreOptions]
    ) -> Session:
        """Restores a session from a checkpoint: the path of a file, or its bytes.

        The checkpoint does not contain ``mounts``, ``tools``, ``id``, ``client`` and ``lease``. Its
        author has chosen its limits and its policy: ``lifetime`` and ``idle`` (seconds) and
        ``total_fuel`` cap the limits, ``policy`` replaces the policy.
        """
        own = restored("restore", options)
        return self._handle(self._core.restore(checkpoint, own, False))

    async def arestore(
        self, checkpoint: str | os.PathLike[str] | bytes, **options: Unpack[RestoreOptions]
    ) -> Session:
        """Asynchronous variant."""
        own = restored("arestore", options)
        return self._handle(await self._core.restore(checkpoint, own, True))

    def find(self, id: str) -> Session:
        """Returns the session with this id."""
        return self._handle(self._core.find(id))

    def sessions(self) -> list[SessionInfo]:
        """Lists all sessions, the oldest first."""
        from ._outcome import SessionInfo

        return [SessionInfo(info) for info in self._core.sessions()]

    def snapshots(self) -> list[str]:
        """Lists the names of all snapshots."""
        return self._core.snapshots()

    def drop_snapshot(self, name: str) -> None:
        """Deletes a snapshot."""
        self._core.drop_snapshot(name)

    @property
    def images(self) -> Images:
        """The images that runs start from."""
        from ._images import Images

        return Images(self._core.images())

    def close(self) -> None:
        """Stops all runs and the runtime's threads. Later calls raise an error."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
    """Runs code in a fresh sandbox of the default runtime. Options are those of
    :meth:`Runtime.run`.
    """
    return default_runtime().run(code, **options)


async def arun(code: str, **options: Unpack[RunOptions]) -> Run:
    """Asynchronous variant."""
    runtime = _default
    if runtime is None:
        import asyncio

        runtime = await asyncio.to_thread(default_runtime)
    return await runtime.arun(code, **options)


def default_runtime() -> Runtime:
    """Returns the runtime that :func:`run` uses. Created on first use, one per process."""
    global _default
    if _default is None:
        with _making:
            if _default is None:
                _default = Runtime()
    return _default


def existing_default() -> Runtime | None:
    """Returns the default runtime if it exists."""
    return _default


_default: Runtime | None = None
_making = allocate_lock()


def _in_child() -> None:
    """A forked child creates its own default runtime."""
    global _default, _making
    _default, _making = None, allocate_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


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
    isolation = held.get("isolation", "none")
    if isolation not in ("none", "process"):
        raise ValueError(f"isolation is 'none' or 'process', not {isolation!r}")
    if not any(name in held or os.environ.get(f"BELLJAR_{name.upper()}") for name in _SOURCES):
        held.update(_installed())
    for name in ("limits", "ceilings"):
        if name in held:
            from ._limits import limits_of

            held[name] = limits_of(held[name], name)
    if held.get("ceilings", {}).get("timeout", 0) is None:
        raise TypeError("the timeout in ceilings is a number of seconds, not None")
    return held, _progress(settings.get("progress"))


def _installed() -> dict[str, Any]:
    """The bundle of the package ``belljar-data``, if it is installed. Runs no code of it: a module
    of this name in the working directory is another's."""
    from importlib.machinery import PathFinder

    if PathFinder.find_spec("belljar_data") is None:
        return {}
    # Takes long to import.
    from importlib import metadata

    try:
        found = metadata.distribution("belljar-data")
    except metadata.PackageNotFoundError:
        return {}
    return {"bundle": str(found.locate_file("belljar_data/bundle"))}


def _without_bundle(
    held: dict[str, Any], settings: Settings, error: BelljarError
) -> dict[str, Any]:
    """The settings for a cache, if the bundle of ``belljar-data`` is for another machine or build.
    A hash or a bundle that was named is not given up."""
    installed = "bundle" in held and settings.get("bundle") is None
    hashed = held.get("bundle_hash") or os.environ.get("BELLJAR_BUNDLE_HASH")
    if error.code != "bundle.foreign" or not installed or hashed:
        raise error
    import warnings

    message = f"the bundle of the package belljar-data is not used, but a cache: {error.args[0]}"
    warnings.warn(message, RuntimeWarning, stacklevel=3)
    return {name: value for name, value in held.items() if name != "bundle"}


def _core(held: dict[str, Any], progress: Any) -> Any:
    held = dict(held)
    if held.pop("isolation", "none") == "process":
        from ._process import started

        return started(held, progress)
    return _belljar.Runtime.build(held, progress, False)


async def _acore(held: dict[str, Any], progress: Any) -> Any:
    if held.get("isolation") == "process":
        from asyncio import to_thread

        return await to_thread(_core, held, progress)
    held = {name: value for name, value in held.items() if name != "isolation"}
    return await _belljar.Runtime.build(held, progress, True)


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
    options = dict(flat("session", options))
    for name in options:
        if name not in SESSION_OPTIONS:
            raise TypeError(unknown("session", name, SESSION_OPTIONS))
    own = own_of(options)
    code = options.pop("init_code", None) or ""
    options["image"] = options.get("image") or "data"
    asked, extras = split(options, "session", RUN_OPTIONS)
    return code, asked, extras, own
