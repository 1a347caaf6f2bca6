"""A server in the place of the engine: what the native half does, over HTTP.

The classes have the methods of those in ``_belljar.pyi``, so that the public ones use either.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from . import _belljar
from ._errors import BelljarError, make
from ._http import MOST_COPIED, Answer, Call, Link
from ._request import (
    LONGEST_RUN,
    body_of,
    form_of,
    large_files,
    opener,
    own_of,
    refused_option,
    request_of,
)
from ._stream import Stream
from ._watch import Watch, described

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Extras = Mapping[str, Any]

_NO_SNAPSHOTS = (
    "snapshots stay in the process that runs the code: use checkpoint and restore, or fork"
)
# Sessions that end at once when a connection is closed.
_ENDING = 8
# Options of a restored session that a server does not take.
_NOT_RESTORED = ("mounts", "id", "lease")


class Report:
    """The outcome of a run, as the server sent it."""

    __slots__ = ("_document",)

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def document(self) -> dict[str, Any]:
        return self._document


class Runtime:
    """The server."""

    def __init__(
        self, link: Link, keep_sessions: bool, limits: Mapping[str, Any] | None = None
    ) -> None:
        self.link = link
        self.keep_sessions = keep_sessions
        # Limits of runs and sessions that name none.
        self._limits = dict(limits or {})
        # Sessions that end with this object.
        self.own: set[str] = set()

    def run(self, code: str, asked: Any, extras: Any, later: bool) -> Any:
        extras = dict(extras or {})
        document = request_of(code, {**self._limits, **(asked or {})}, extras)
        large = large_files(extras)
        watch = Watch.of(self.link, document, extras)
        body, media = form_of(document, extras, large) if large else (document.text(), None)
        # A run without functions of the caller's does nothing outside of its sandbox.
        repeatable = watch is None

        def work(call: Call) -> Any:
            outcome = _run(
                self.link, call, "/v1/runs", body, media, watch, document.silence, repeatable
            )
            return _parts(self.link, outcome)

        return self.link.do(work, later)

    def check(self, code: str, policy: Any, later: bool) -> Any:
        asked = {"code": code, "policy": policy}
        return self._tell("POST", "/v1/check", asked, later)

    def session(self, code: str, asked: Any, extras: Any, own: Any, later: bool) -> Any:
        return self._session(code, asked, extras, own, later)

    def for_client(
        self, client: str, code: str, asked: Any, extras: Any, own: Any, later: bool
    ) -> Any:
        return self._session(code, asked, extras, {**(own or {}), "client": client}, later, client)

    def _session(
        self, code: str, asked: Any, extras: Any, own: Any, later: bool, client: str | None = None
    ) -> Any:
        extras = dict(extras or {})
        tools = _Tools.taken(extras)
        document = request_of(code, {**self._limits, **(asked or {})}, extras)
        document.typed(None)
        document.add(tools.deferred())
        document.add(own_of(own or {}))
        body = document.text()

        def work(call: Call) -> Session:
            if client is not None:
                try:
                    return self._found(call, client, tools)
                except BelljarError as error:
                    if error.code != "session.not_found":
                        raise
            try:
                made = self._make(call, "/v1/sessions", body, document.silence)
            except BelljarError as error:
                # Another caller was faster.
                if client is None or error.code != "session.name_taken":
                    raise
                return self._found(call, client, tools)
            return self.made(made, tools, max(document.silence, LONGEST_RUN))

        return self.link.do(work, later)

    def _make(self, call: Call, path: str, body: bytes, silence: float | None = None) -> Any:
        return self.link.json(
            call, "POST", path, body, headers=_once(), silence=_with(self.link, silence)
        )

    def made(self, about: dict[str, Any], tools: _Tools, longest: float) -> Session:
        """A session of this object's, which ends with it unless sessions are kept."""
        if not self.keep_sessions:
            self.own.add(about["id"])
            self.link.expect_drops()
        return Session(self, about["id"], tools, longest)

    def _found(self, call: Call, id: str, tools: _Tools | None = None) -> Session:
        about = self.link.json(call, "GET", f"/v1/sessions/{quote(id, safe='')}")
        return Session(self, about["id"], tools or _Tools(), math.inf)

    def restore(self, checkpoint: Any, own: Any, later: bool) -> Any:
        own = dict(own or {})
        for name in _NOT_RESTORED:
            if name in own:
                raise refused_option(name, "a server restores a session without this option")
        tools = _Tools.taken(own)
        policy = own.pop("policy", None)
        if isinstance(policy, dict):
            raise refused_option("policy", "a server restores a session with open or strict alone")
        query = {name: own[name] for name in ("lifetime", "idle", "total_fuel") if name in own}
        if policy is not None:
            query["policy"] = policy
        if own.get("client") is not None:
            query["name"] = own["client"]
        path = "/v1/checkpoints" + ("?" + urlencode(query) if query else "")
        if isinstance(checkpoint, bytes):
            body: Any = checkpoint
        else:
            place = os.fspath(checkpoint)
            body = opener(place)

        def work(call: Call) -> Session:
            headers = {**_once(), "Content-Type": "application/octet-stream"}
            answer = self.link.ask(call, "POST", path, body, headers, silence=None)
            return self.made(answer.json(), tools, math.inf)

        return self.link.do(work, later)

    def session_from(self, snapshot: str, later: bool) -> Any:
        raise _not_there(_NO_SNAPSHOTS)

    def snapshots(self) -> list[str]:
        raise _not_there(_NO_SNAPSHOTS)

    def drop_snapshot(self, name: str) -> None:
        raise _not_there(_NO_SNAPSHOTS)

    def find(self, id: str) -> Session:
        found: Session = self.link.do(lambda call: self._found(call, id), False)
        return found

    def sessions(self) -> list[dict[str, Any]]:
        found = self._tell("GET", "/v1/sessions", None, False)
        return [_info(about) for about in found["sessions"]]

    def images(self) -> Images:
        return Images(self.link)

    def lockdown(self, *_: object) -> Any:
        raise _not_there("code runs on the server: belljar serve --lockdown locks that down")

    def close(self) -> None:
        if self.link.is_closed:
            return
        own, self.own = list(self.own), set()

        def end() -> None:
            while own:
                _ended(self.link, Call(), own.pop())

        # A server that cannot be reached closes them when they are unused for long.
        for _ in range(min(len(own), _ENDING)):
            self.link.later(end)
        self.link.close()

    def _tell(self, method: str, path: str, body: Any, later: bool) -> Any:
        return self.link.do(lambda call: self.link.json(call, method, path, body), later)


class Session:
    """A session of the server."""

    def __init__(self, runtime: Runtime, id: str, tools: _Tools, longest: float) -> None:
        self.id = id
        # Seconds that a run may take if it does not say: infinite where that is unknown.
        self._longest = longest
        self._runtime = runtime
        self._link = runtime.link
        self._tools = tools
        self._path = f"/v1/sessions/{id}"

    def info(self) -> dict[str, Any]:
        return _info(self._tell("GET", "", None, False))

    def run(self, code: str, asked: Any, extras: Any, later: bool) -> Any:
        extras = self._tools.merged(dict(extras or {}))
        document = request_of(code, asked, extras, self._longest)
        large = large_files(extras)
        watch = Watch.of(self._link, document, extras)
        body = document.text(without=large)

        def work(call: Call) -> Any:
            for path in large:
                self._write(call, path, extras["files"][path])
            path = self._path + "/runs"
            outcome = _run(
                self._link, call, path, body, None, watch, document.silence, repeatable=False
            )
            return _parts(self._link, outcome)

        return self._link.do(work, later)

    def answer(self, answers: list[tuple[int, Any, str | None]], later: bool) -> Any:
        given = [
            {"id": id, "answer": answer} if failed is None else {"id": id, "error": failed}
            for id, answer, failed in answers
        ]

        def work(call: Call) -> Any:
            silence = _with(self._link, self._longest)
            outcome = self._link.json(
                call,
                "POST",
                self._path + "/answer",
                {"answers": given},
                repeatable=False,
                silence=silence,
            )
            return _parts(self._link, outcome)

        return self._link.do(work, later)

    def waiting(self, later: bool) -> Any:
        return self._tell("GET", "/waiting", None, later, lambda found: found["calls"])

    def interrupt(self) -> bool:
        is_done: bool = self._tell("POST", "/interrupt", None, False)["interrupted"]
        return is_done

    def history(self, later: bool) -> Any:
        return self._tell("GET", "/history", None, later, lambda found: found["runs"])

    def execution(self, later: bool) -> Any:
        return self._tell("GET", "/history", None, later, lambda found: found["execution"])

    def rewind(self, execution: int, later: bool) -> Any:
        return self._tell("POST", "/rewind", {"execution": execution}, later, lambda _: None)

    def rewind_keeping(self, execution: int, later: bool) -> Any:
        asked = {"execution": execution, "keep": True}
        return self._tell("POST", "/rewind", asked, later, lambda found: self._made(found["kept"]))

    def fork(self, later: bool) -> Any:
        def work(call: Call) -> Session:
            return self._made(self._runtime._make(call, self._path + "/fork", b"{}"))

        return self._link.do(work, later)

    def _made(self, about: dict[str, Any]) -> Session:
        return self._runtime.made(about, self._tools, self._longest)

    def checkpoint(self, path: str | os.PathLike[str] | None, later: bool) -> Any:
        def work(call: Call) -> bytes | None:
            answer = self._link.ask(call, "GET", self._path + "/checkpoint", silence=None)
            if path is None:
                return answer.read()
            _save(answer, Path(path), MOST_COPIED)
            return None

        return self._link.do(work, later)

    def suspend(self, later: bool) -> Any:
        return self._tell("POST", "/suspend", None, later, lambda found: found["suspended"])

    def snapshot(self, name: str, later: bool) -> Any:
        raise _not_there(_NO_SNAPSHOTS)

    def read(self, path: str, later: bool) -> Any:
        return self._link.do(lambda call: self._get(call, path).read(), later)

    def _get(self, call: Call, path: str) -> Answer:
        return self._link.ask(call, "GET", self._path + "/files/" + _quoted(path))

    def _write(self, call: Call, path: str, content: Any) -> Any:
        headers = {"Content-Type": "application/octet-stream"}
        body = body_of(content)
        answer = self._link.ask(call, "PUT", f"{self._path}/files/{_quoted(path)}", body, headers)
        return answer.json()

    def copy_to(self, files: Any, dir: str | os.PathLike[str], later: bool) -> Any:
        def work(call: Call) -> list[str]:
            return _copied(files, dir, lambda path: self._get(call, path))

        return self._link.do(work, later)

    def files(self) -> Files:
        return Files(self)

    def set_labels(self, labels: dict[str, str]) -> None:
        self._tell("PATCH", "", {"labels": labels}, False)

    def extend_lease(self, seconds: float) -> bool:
        try:
            self._tell("PATCH", "", {"lease_seconds": seconds}, False)
        except BelljarError as error:
            if error.code == "session.no_lease":
                return False
            raise
        return True

    def get(self, name: str, later: bool) -> Any:
        def work(call: Call) -> tuple[Any] | None:
            path = f"{self._path}/variables/{quote(name, safe='')}"
            try:
                read = self._link.ask(call, "GET", path).read()
            except BelljarError as error:
                if error.code == "session.no_variable":
                    return None
                raise
            return (_belljar.from_tagged(read.decode()),)

        return self._link.do(work, later)

    def set(self, name: str, object: Any, later: bool) -> Any:
        body = _belljar.to_tagged(object).encode()
        path = f"/variables/{quote(name, safe='')}"
        return self._tell("PUT", path, body, later, lambda _: None)

    def evaluate(self, expressions: dict[str, str], later: bool) -> Any:
        def read(found: dict[str, Any]) -> dict[str, tuple[Any, str | None]]:
            values = {name: (_value(held), None) for name, held in found["values"].items()}
            return {**values, **{name: (None, why) for name, why in found["errors"].items()}}

        return self._tell("POST", "/evaluate", {"expressions": expressions}, later, read)

    def complete(self, code: str, cursor: int, later: bool) -> Any:
        return self._tell("POST", "/complete", {"code": code, "cursor": cursor}, later)

    def inspect(self, code: str, cursor: int, detail: bool, later: bool) -> Any:
        def read(found: dict[str, Any]) -> dict[str, Any] | None:
            return found if found.pop("found") else None

        asked = {"code": code, "cursor": cursor, "detail": detail}
        return self._tell("POST", "/inspect", asked, later, read)

    def is_complete(self, code: str, later: bool) -> Any:
        return self._tell("POST", "/is_complete", {"code": code}, later)

    def close(self) -> None:
        self._runtime.own.discard(self.id)
        self._link.do(lambda call: _ended(self._link, call, self.id), False)

    def drop(self) -> None:
        """The last handle is gone. A session of this object's ends, without anybody waiting."""
        link, id = self._link, self.id
        if id in self._runtime.own:
            self._runtime.own.discard(id)
            link.drop(lambda: _ended(link, Call(), id))

    def _tell(
        self,
        method: str,
        path: str,
        body: Any,
        later: bool,
        read: Callable[[Any], Any] = lambda found: found,
    ) -> Any:
        def work(call: Call) -> Any:
            repeatable = method != "POST"
            path_ = self._path + path
            return read(self._link.json(call, method, path_, body, repeatable=repeatable))

        return self._link.do(work, later)


class Files:
    """The workspace of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._link = session._link
        self._path = session._path

    def list(self, dir: str, depth: int, later: bool) -> Any:
        query = urlencode({"path": dir, "depth": depth})

        def work(call: Call) -> list[dict[str, Any]]:
            found = self._link.json(call, "GET", f"{self._path}/files?{query}")
            return [_entry(entry) for entry in found["entries"]]

        return self._link.do(work, later)

    def stat(self, path: str, later: bool) -> Any:
        parent, _, name = path.rstrip("/").rpartition("/")

        def work(call: Call) -> dict[str, Any]:
            query = urlencode({"path": parent})
            found = self._link.json(call, "GET", f"{self._path}/files?{query}")
            for entry in found["entries"]:
                if entry["path"].rpartition("/")[2] == name:
                    return _entry(entry)
            # The server says what is wrong with the path.
            self._session._get(call, path).close()
            raise refused_option("path", f"{path} cannot be described")

        return self._link.do(work, later)

    def read(self, path: str, start: int, end: int | None, later: bool) -> Any:
        if end is not None and end <= start:
            return self._link.do(lambda call: b"", later)
        headers = {}
        if start or end is not None:
            headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"

        def work(call: Call) -> bytes:
            where = f"{self._path}/files/{_quoted(path)}"
            try:
                return self._link.ask(call, "GET", where, None, headers).read()
            except BelljarError as error:
                # A range past the end.
                if error.code == "file.range":
                    return b""
                raise

        return self._link.do(work, later)

    def write(self, path: str, content: Any, later: bool) -> Any:
        return self._link.do(lambda call: _entry(self._session._write(call, path, content)), later)

    def make_dir(self, path: str, later: bool) -> Any:
        return self._tell("POST", "/directories", {"path": path}, later)

    def rename(self, from_: str, to: str, later: bool) -> Any:
        return self._tell("POST", "/rename", {"from": from_, "to": to}, later)

    def remove(self, path: str, later: bool) -> Any:
        return self._tell("DELETE", "/files/" + _quoted(path), None, later)

    def _tell(self, method: str, path: str, body: Any, later: bool) -> Any:
        def work(call: Call) -> None:
            self._link.json(call, method, self._path + path, body, repeatable=False)

        return self._link.do(work, later)


class RunFiles:
    """The files that a run left on the server."""

    def __init__(self, link: Link, run: str, files: list[dict[str, Any]]) -> None:
        self._link = link
        self._run: str | None = run
        self._files = files
        link.expect_drops()

    def read(self, path: str) -> bytes:
        data: bytes = self._link.do(lambda call: self._get(call, path).read(), False)
        return data

    def copy_to(self, dir: str | os.PathLike[str]) -> list[str]:
        def work(call: Call) -> list[str]:
            return _copied(self._files, dir, lambda path: self._get(call, path))

        copied: list[str] = self._link.do(work, False)
        return copied

    def _get(self, call: Call, path: str) -> Answer:
        if self._run is None:
            raise ValueError("the files of this run were removed")
        return self._link.ask(call, "GET", f"/v1/runs/{self._run}/files/{_quoted(path)}")

    def close(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            link, path = self._link, f"/v1/runs/{run}"
            link.drop(lambda: link.json(Call(), "DELETE", path, silence=10.0))

    def __del__(self) -> None:
        self.close()


class Images:
    """The images of the server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def list(self, later: bool) -> Any:
        return self._link.do(self._all, later)

    def _all(self, call: Call) -> Any:
        found = self._link.json(call, "GET", "/v1/images")["images"]
        return [{**image, **(image.pop("contents") or {})} for image in found]

    def get(self, name: str, later: bool) -> Any:
        def work(call: Call) -> Any:
            for image in self._all(call):
                if image["name"] == name:
                    return image
            raise make(f"there is no image {name}", "image.unknown")

        return self._link.do(work, later)

    def prepare(self, name: str, later: bool) -> Any:
        def work(call: Call) -> None:
            # The first run of an image prepares it.
            asked = {"code": "", "image": name}
            silence = _with(self._link, LONGEST_RUN)
            self._link.json(call, "POST", "/v1/runs", asked, silence=silence)

        return self._link.do(work, later)

    def build(self, recipe: Any, later: bool) -> Any:
        raise _not_there("images are built where the code runs: belljar image build")

    def remove(self, name: str, later: bool) -> Any:
        raise _not_there("images are removed where the code runs: belljar image remove")


class _Tools:
    """What a session's runs have of its caller: functions, and a line for `input()`."""

    def __init__(self, tools: Iterable[Any] = (), limits: Any = None, answerer: Any = None) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.limits = limits
        self.answerer = answerer

    @classmethod
    def taken(cls, extras: dict[str, Any]) -> _Tools:
        """Takes them out of options."""
        limits, answerer = extras.pop("tool_limits", None), extras.pop("answerer", None)
        return cls(extras.pop("tools", None) or (), limits, answerer)

    def deferred(self) -> dict[str, Any]:
        """Tools that the server knows for the whole session."""
        found = [described(tool) for tool in self.tools.values() if tool.start is None]
        return {"tools": found} if found else {}

    def merged(self, extras: dict[str, Any]) -> dict[str, Any]:
        """Options of a run, with what the session has and the run does not name."""
        live = {name: tool for name, tool in self.tools.items() if tool.start is not None}
        tools = {**live, **{tool.name: tool for tool in extras.get("tools") or ()}}
        if tools:
            extras["tools"] = list(tools.values())
        if self.limits is not None:
            extras.setdefault("tool_limits", self.limits)
        if self.answerer is not None:
            extras.setdefault("answerer", self.answerer)
        return extras


def _run(
    link: Link,
    call: Call,
    path: str,
    body: Any,
    media: str | None,
    watch: Watch | None,
    seconds: float | None,
    repeatable: bool,
) -> Any:
    headers = {"Content-Type": media or "application/json"}
    silence = _with(link, seconds)
    if watch is None:
        answer = link.ask(call, "POST", path, body, headers, repeatable=repeatable, silence=silence)
        return answer.json()
    headers["Accept"] = "text/event-stream"
    return watch.outcome(call, Stream(link, call, path, body, headers, silence, watch.stream))


def _with(link: Link, seconds: float | None) -> float | None:
    """How long an answer may take that has so many seconds of work before it."""
    if link.timeout is None or seconds == math.inf:
        return None
    return link.timeout + (seconds or 0)


def _parts(link: Link, outcome: dict[str, Any]) -> tuple[Report, tuple[Any] | None, Any]:
    outcome.pop("id", None)
    run = outcome.pop("run", None)
    typed = (_value(outcome.pop("typed")),) if "typed" in outcome else None
    files = RunFiles(link, run, outcome["files"]) if run is not None else None
    return Report(outcome), typed, files


def _value(tagged: Any) -> Any:
    if tagged is None or isinstance(tagged, (bool, str)):
        return tagged
    return _belljar.from_tagged(json.dumps(tagged))


def _info(about: dict[str, Any]) -> dict[str, Any]:
    names = ("id", "status", "image", "labels", "lease_seconds", "idle_seconds")
    return {"client": about["name"], **{name: about[name] for name in names}}


def _entry(about: dict[str, Any]) -> dict[str, Any]:
    from datetime import datetime

    modified = about.get("modified")
    if modified is not None:
        modified = datetime.fromisoformat(modified.replace("Z", "+00:00")).timestamp()
    return {
        "path": about["path"],
        "kind": about["kind"],
        "size": about["size"],
        "modified": modified,
        "target": about.get("target"),
    }


def _ended(link: Link, call: Call, id: str) -> None:
    if link.is_gone:
        return
    try:
        link.json(call, "DELETE", f"/v1/sessions/{id}", silence=10.0)
    except BelljarError as error:
        if error.code not in ("session.not_found", "process.ended"):
            raise


def _once() -> dict[str, str]:
    """A header by which a request that is sent again makes nothing a second time."""
    return {"Idempotency-Key": uuid.uuid4().hex}


def _not_there(message: str) -> BelljarError:
    return make(message, "server.unsupported")


def _copied(
    files: Iterable[Mapping[str, Any]],
    dir: str | os.PathLike[str],
    get: Callable[[str], Answer],
) -> list[str]:
    """Copies regular files into a directory, and nowhere else."""
    root = Path(dir)
    root.mkdir(parents=True, exist_ok=True)
    copied, left = [], MOST_COPIED
    for file in files:
        if file.get("symlink") is not None:
            continue
        target = root.joinpath(*_inside(file["path"]))
        target.parent.mkdir(parents=True, exist_ok=True)
        left -= _save(get(file["path"]), target, left)
        copied.append(str(target))
    return copied


def _inside(path: str) -> list[str]:
    names = path.split("/")
    forbidden = '\\:*?"<>|' if os.name == "nt" else ""
    for name in names:
        if name in ("", ".", "..") or "\0" in name or any(char in forbidden for char in name):
            raise make(f"{path!r} is no path in a directory", "server.answer", "guest")
    return names


def _save(answer: Answer, target: Path, most: int) -> int:
    """Writes a body to a file, which is there when it is complete. Returns its size."""
    part = target.parent / f".belljar-{uuid.uuid4().hex}"
    try:
        with part.open("xb") as file:
            size = answer.copy(file, most)
        part.replace(target)
        return size
    except BaseException:
        answer.close()
        part.unlink(missing_ok=True)
        raise


def _quoted(path: str) -> str:
    # Proxies take `..` for the directory above, which is another part of the API.
    if ".." in path.split("/"):
        raise make(f"{path!r} has `..`", "session.path")
    return quote(path)
