"""The part that runs in the processes of a cluster, and the messages between both parts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import belljar


@dataclass(frozen=True)
class Job:
    """What all inputs of a map share.

    An input is the value of ``variable``, or without a ``variable`` of all variables by name.
    """

    code: str
    options: Mapping[str, Any]
    variable: str | None
    collect_bytes: int


@dataclass(frozen=True)
class Deed:
    """An operation on a session of the store, which must not be repeated."""

    what: Literal["create", "run", "get", "set", "evaluate", "rewind", "fork", "info", "remove"]
    # None if there is no session yet.
    id: str | None
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    collect_bytes: int = 0


@dataclass(frozen=True)
class Done:
    """The worker's answer for one input: an outcome, a value or a failure."""

    outcome: belljar.Outcome | None
    failure: Exception | None
    contents: Mapping[str, bytes]
    value: Any = None


class BelljarWorker:
    """An actor with a runtime, which does one thing at a time."""

    def __init__(
        self, settings: Mapping[str, Any], image: str | None, store: Mapping[str, Any] | None
    ) -> None:
        self._settings = settings
        self._image = image
        self._store = store
        self._runtime: belljar.Runtime | None = None
        self._sessions: belljar.StoredSessions | None = None

    def start(self) -> tuple[int, str] | Exception:
        """Creates the runtime and loads the image. Returns the process, or why it failed."""
        try:
            runtime = belljar.Runtime(**{"progress": False, **self._settings})
            image = self._image or "core"
            runtime.images.prepare(image)
            runtime.run("", image=image)
            if self._store is not None:
                name = f"{os.getpid()}@{_node()}"
                self._sessions = belljar.StoredSessions(runtime=runtime, name=name, **self._store)
        except Exception as error:
            return portable(error)
        self._runtime = runtime
        return os.getpid(), _node()

    def run(self, job: Job | Deed, inputs: list[Any]) -> list[Done]:
        """Runs the code on each input in turn."""
        if isinstance(job, Deed):
            return [self._do(job)]
        return [self._run(job, held) for held in inputs]

    def _run(self, job: Job, held: Any) -> Done:
        assert self._runtime is not None
        options = dict(job.options)
        own = held if job.variable is None else {job.variable: held}
        options["variables"] = {**(options.get("variables") or {}), **own}
        if self._image is not None:
            options.setdefault("image", self._image)
        try:
            with self._runtime.run(job.code, **options) as run:
                return Done(run.outcome, None, _collected(run, job.collect_bytes))
        except Exception as error:
            return Done(None, portable(error), {})

    def _do(self, deed: Deed) -> Done:
        assert self._sessions is not None
        try:
            if deed.what == "run":
                return self._run_in(self._sessions.session(str(deed.id)), deed)
            return Done(None, None, {}, self._asked(self._sessions, deed))
        except Exception as error:
            return Done(None, portable(error), {})

    def _run_in(self, stored: belljar.StoredSession, deed: Deed) -> Done:
        # When the block ends, the state is in the store: an answered run is not lost.
        with stored.claim() as session:
            run = session.run(*deed.arguments, **deed.options)
            contents = _collected(run, deed.collect_bytes)
        return Done(run.outcome, None, contents)

    def _asked(self, sessions: belljar.StoredSessions, deed: Deed) -> Any:
        if deed.what == "create":
            options = {"image": self._image, **deed.options}
            return sessions.create(*deed.arguments, **options).id
        stored = sessions.session(str(deed.id))
        if deed.what == "fork":
            return stored.fork(*deed.arguments).id
        if deed.what == "info":
            return stored.info
        return getattr(stored, deed.what)(*deed.arguments)

    def close(self) -> None:
        """Closes the runtime, and removes its files."""
        if self._runtime is not None:
            self._runtime.close()


def portable(error: Exception) -> Exception:
    """Converts an exception so that another process can unpickle it."""
    if isinstance(error, belljar.BelljarError):
        return error
    return type(error)(str(error)) if type(error) in (TypeError, ValueError) else _told(error)


def _told(error: Exception) -> Exception:
    return belljar.BelljarError(f"the worker failed: {type(error).__name__}: {error}", "ray.worker")


def _collected(run: belljar.Run, limit: int) -> dict[str, bytes]:
    """The first files of a run that fit."""
    contents: dict[str, bytes] = {}
    for file in run.files:
        if file.symlink is None and file.size <= limit:
            contents[file.path] = run[file.path]
            limit -= len(contents[file.path])
    return contents


def _node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())
