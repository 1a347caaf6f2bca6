"""Outcomes of runs as immutable objects."""

from __future__ import annotations

from ._notebook import Shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from . import _belljar


class Record:
    """A read-only record of named values, made from a dictionary."""

    __slots__ = ("_data",)

    _data: dict[str, Any]

    def __init__(self, data: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_data", dict(data))

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            # Only for undeclared attributes: missing keys give ``None``.
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            if name in self._data:
                return self._data[name]
            if name in fields_of(type(self)):
                return None
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def to_dict(self) -> dict[str, Any]:
        """Returns a dictionary, which the caller may change."""
        return {key: _copied(held) for key, held in self._data.items()}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._data == other._data)

    def __hash__(self) -> int:
        return hash(repr(self._data))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._data,)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown())
        return f"{type(self).__name__}({shown})"

    def _shown(self) -> Iterator[str]:
        return (name for name in fields_of(type(self)) if getattr(self, name) is not None)

    def __dir__(self) -> list[str]:
        return sorted({*fields_of(type(self)), *object.__dir__(self)})


def fields_of(kind: type[Record]) -> list[str]:
    """The field names of a record, in order."""
    names: dict[str, None] = {}
    for base in reversed(kind.__mro__):
        annotations = getattr(base, "__annotations__", {})
        names.update(dict.fromkeys(name for name in annotations if not name.startswith("_")))
    return list(names)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(held) for key, held in value.items()}
    if isinstance(value, list):
        return [_copied(held) for held in value]
    return value


class FileEntry(Record):
    """A file in the workspace. ``size`` is in bytes; ``symlink`` is the target of a link.

    ``problem`` says what is wrong with an office document or a PDF that cannot be opened.
    """

    __slots__ = ()
    path: str
    size: int
    symlink: str | None
    sha256: str | None
    media_type: str | None
    problem: str | None


class PlotEntry(Record):
    """A figure in the workspace; ``base64_uri`` is set with inline images."""

    __slots__ = ()
    path: str
    size: int
    base64_uri: str | None


class Table(Record):
    """The first rows of a DataFrame or a Series, as data."""

    __slots__ = ()
    columns: list[str]
    dtypes: list[str]
    index: list[Any]
    shape: list[int]
    rows: list[list[Any]]
    truncated: bool


class DataFrameEntry(Record):
    """A pandas object among the global variables."""

    __slots__ = ()
    name: str
    repr: str

    @property
    def table(self) -> Table | None:
        """Its first rows, if requested with ``capture={"table_rows": n}``."""
        table = self._data.get("table")
        return None if table is None else Table(table)


class Violation(Record):
    """A violation of the policy; ``line`` counts from 1."""

    __slots__ = ()
    message: str
    line: int | None


class ErrorDetail(Record):
    """An error of the code. As text it is one line: ``Type: message``, or a fixed text.

    ``kind`` is one of ``exception``, ``syntax``, ``timeout``, ``fuel``, ``memory``, ``policy``,
    ``exit``, ``crash``, ``output``, ``interrupted``, ``waiting``.
    """

    __slots__ = ()
    text: str
    kind: str
    type: str
    message: str
    line: int | None
    traceback: str | None
    exit_status: int | None
    hint: str | None

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All violations of the policy; only for the kind ``policy``."""
        return tuple(Violation(held) for held in self._data.get("violations", ()))

    def __str__(self) -> str:
        return self.text


class Usage(Record):
    """Resources that a run used; times in milliseconds, sizes in bytes."""

    __slots__ = ()
    wall_ms: float
    fuel: int
    memory_peak_bytes: int
    stdout_bytes: int
    stderr_bytes: int
    workspace_bytes: int


class ToolCall(Record):
    """A call of a tool; ``error`` is ``{"kind", "message"}`` if it failed."""

    __slots__ = ()
    id: int
    name: str
    arguments: Any
    ok: bool
    error: dict[str, str] | None
    duration_ms: float
    argument_bytes: int
    answer_bytes: int


class Event(Record):
    """An event of a run. The attributes depend on ``type``."""

    __slots__ = ()
    at_ms: float
    type: str
    text: str | None
    data: dict[str, Any] | None
    metadata: dict[str, Any] | None
    display_id: str | None
    wait: bool | None
    path: str | None
    size: int | None
    id: int | None
    name: str | None
    arguments: Any
    ok: bool | None
    reason: str | None
    error: Any
    detail: dict[str, Any] | None
    events: int | None
    bytes: int | None
    success: bool | None


class Outcome(Record, Shown):
    """The outcome of a run.

    ``result`` has the type that it has in the sandbox: a tuple, a dictionary with integer keys, a
    numpy array, a DataFrame (with ``typed=False`` plain JSON). ``error`` is ``None`` on success.
    In a session, ``interpreter_id`` and ``execution`` identify the session and the run.
    """

    __slots__ = ("_report", "_typed")

    _report: _belljar.Report
    _typed: tuple[Any] | None

    success: bool
    stdout: str
    stderr: str
    code: str
    interpreter_id: str | None
    execution: int | None
    restart_reason: str | None

    def __init__(self, data: Mapping[str, Any], typed: tuple[Any] | None = None) -> None:
        super().__init__(data)
        object.__setattr__(self, "_typed", typed)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name != "_data":
                return super().__getattr__(name)
            # Created lazily, because most outcomes are never read in full.
            data = self._report.document()
            object.__setattr__(self, "_data", data)
            return data

    @property
    def result(self) -> Any:
        """The result."""
        return self._data["result"] if self._typed is None else self._typed[0]

    @property
    def error(self) -> ErrorDetail | None:
        """The error with its parts; its text is one line. None on success."""
        if self._data["error"] is None:
            return None
        return ErrorDetail({"text": self._data["error"], **self._data["error_detail"]})

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """All new and changed files, sorted by path."""
        return tuple(FileEntry(held) for held in self._data["files"])

    @property
    def plots(self) -> tuple[PlotEntry, ...]:
        """All figures captured or saved, in order of creation."""
        return tuple(PlotEntry(held) for held in self._data["plots"])

    @property
    def dataframes(self) -> tuple[DataFrameEntry, ...]:
        """All pandas objects among the global variables."""
        return tuple(DataFrameEntry(held) for held in self._data["dataframes"])

    @property
    def truncated(self) -> tuple[str, ...]:
        """Which of ``stdout``, ``stderr``, ``dataframes``, ``result``, ``events`` were cut."""
        return tuple(self._data["truncated"])

    @property
    def usage(self) -> Usage:
        """Resources used."""
        return Usage(self._data["usage"])

    @property
    def events(self) -> tuple[Event, ...] | None:
        """All events in order, if requested with ``capture={"events": True}``."""
        events = self._data.get("events")
        return None if events is None else tuple(Event(held) for held in events)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """All tool calls."""
        return tuple(ToolCall(held) for held in self._data.get("tool_calls", ()))

    @property
    def interpreter_restarted(self) -> bool:
        """Whether the session was restored to the state after its last completed run."""
        return bool(self._data.get("interpreter_restarted", False))

    @property
    def interpreter_crashed(self) -> bool:
        """Whether restoring the session failed."""
        return bool(self._data.get("interpreter_crashed", False))

    def to_dict(self) -> dict[str, Any]:
        """Returns the outcome as JSON (``docs/reference/outcome.md``); the result is plain JSON."""
        data = super().to_dict()
        if self._typed is not None:
            from ._plain import plain

            data["result"] = plain(self._typed[0])
        return data

    def to_openai(self, *, call_id: str | None = None) -> dict[str, Any]:
        """Converts to an item of OpenAI's Responses API: :func:`belljar.convert.to_openai`."""
        from .convert import to_openai

        return to_openai(self.to_dict(), call_id=call_id)

    def to_anthropic(
        self, tool_use_id: str | None = None, *, file_ids: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Converts to a block of Anthropic's Messages API: :func:`belljar.convert.to_anthropic`."""
        from .convert import to_anthropic

        return to_anthropic(self.to_dict(), tool_use_id, file_ids=file_ids)

    def to_gemini(
        self, *, call_id: str | None = None, name: str | None = None
    ) -> list[dict[str, Any]]:
        """Converts to parts of Gemini's API: :func:`belljar.convert.to_gemini`."""
        from .convert import to_gemini

        return to_gemini(self.to_dict(), call_id=call_id, name=name)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self._data))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._data, self._typed)

    def _shown(self) -> Iterator[str]:
        yield "success"
        for name in ("result", "stdout", "error", "plots"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (str, tuple)) and not value):
                yield name


def reported(report: _belljar.Report, typed: tuple[Any] | None) -> Outcome:
    """Makes an outcome from the native half."""
    outcome = Outcome.__new__(Outcome)
    object.__setattr__(outcome, "_report", report)
    object.__setattr__(outcome, "_typed", typed)
    return outcome


class SessionInfo(Record):
    """The description of a session; ``status`` is idle, running, suspended or failed."""

    __slots__ = ()
    id: str
    status: str
    client: str | None
    image: str
    labels: dict[str, str]
    lease_seconds: float | None
    idle_seconds: float


class HistoryEntry(Record):
    """A run of a session."""

    __slots__ = ()
    execution: int
    code: str
    success: bool
    error: str | None
    wall_ms: float
    fuel: int


class PathEntry(Record):
    """An entry in a session's workspace; ``kind`` is file, directory or link."""

    __slots__ = ()
    path: str
    kind: str
    size: int
    modified: float | None
    target: str | None


class ImageInfo(Record):
    """The description of an image; its contents are ``None`` until it is baked."""

    __slots__ = ()
    name: str
    path: str
    built_in: bool
    tier: str | None
    disk_bytes: int
    description: str | None
    base: str | None
    imports: list[str] | None
    packages: list[str] | None
    memory_bytes: int | None


class Completion(Record):
    """Completions of a name: ``matches`` replace the text from ``start`` to the cursor."""

    __slots__ = ()
    start: int
    matches: list[str]


class Inspection(Record):
    """The description of an object. Everything in it comes from the guest."""

    __slots__ = ()
    name: str
    text: str
    signature: str | None
    doc: str | None
    source: str | None

    @property
    def class_(self) -> str:
        """Its class."""
        return str(self._data["class"])


class Completeness(Record):
    """Whether code is complete: ``status`` is complete, incomplete or invalid."""

    __slots__ = ()
    status: str
    indent: str | None


class CheckReport(Record):
    """The result of checking code without running it."""

    __slots__ = ()
    missing_imports: list[str]

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The violations of the policy."""
        return tuple(Violation(held) for held in self._data["violations"])


class WaitingCall(Record):
    """An unanswered call of a deferred tool."""

    __slots__ = ()
    id: int
    name: str
    arguments: Any
