"""Types of options for type checkers. Never imported at run time, because `typing` is slow to
import.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

from ._limits import LimitOptions, Limits

if TYPE_CHECKING:
    from ._outcome import Event
    from ._tools import AnyTool

    FileContent = Union[str, bytes, bytearray, memoryview, os.PathLike[str]]
    Answerer = Callable[[str], Union[str, Awaitable[Union[str, None]], None]]


class Capture(TypedDict, total=False):
    """What to return from a run."""

    figures: bool
    figure_format: Literal["png", "svg"]
    figure_dpi: int
    figure_count: int
    inline_images: bool
    dataframes: bool
    dataframe_chars: int
    table_rows: int
    file_hashes: bool
    media_types: bool
    result_bytes: int
    typed_bytes: int
    charts: bool
    events: bool


class Deterministic(TypedDict, total=False):
    """Settings that make a run repeatable."""

    seed: int
    epoch: int
    step_ns: int


class Rules(TypedDict, total=False):
    """The lists of a policy; omitted lists are those of ``strict``."""

    imports: Iterable[str]
    forbidden_names: Iterable[str]
    forbidden_attributes: Iterable[str]


class ToolLimits(TypedDict, total=False):
    """Limits on tool calls of a run; ``timeout`` in seconds."""

    calls: int
    argument_bytes: int
    answer_bytes: int
    total_bytes: int
    timeout: float


class _CommonOptions(LimitOptions, total=False):
    image: str | None
    files: Mapping[str, FileContent] | None
    mounts: Mapping[str, str | os.PathLike[str]] | None
    variables: Mapping[str, Any] | None
    env: Mapping[str, str] | None
    aliases: Sequence[str] | None
    cwd: str | None
    args: Sequence[str] | None
    limits: Limits | LimitOptions | None
    policy: Literal["open", "strict"] | Rules | None
    deterministic: bool | Deterministic | None
    seed: int | None
    tools: Sequence[AnyTool] | None
    tool_limits: ToolLimits | None
    input: Answerer | None


class RunOptions(_CommonOptions, total=False):
    """Options of a run. ``None`` means not given, except for ``timeout``."""

    stdin: str | bytes | None
    run_env: Mapping[str, str] | None
    echo: Literal["none", "all", "last", "display"] | None
    dialect: Literal["python", "ipython"] | None
    result: str | None
    typed: bool | None
    threads: Literal["in_place", "refuse"] | None
    capture: Capture | None
    on_event: Callable[[Event], object] | None


class SessionOptions(_CommonOptions, total=False):
    """Options of a session: those of its runs, and its own."""

    init_code: str | None
    lifetime: float | None
    idle: float | None
    total_fuel: int | None
    history: tuple[int, int] | None
    client: str | None
    labels: Mapping[str, str] | None
    lease: float | tuple[float, Literal["close", "suspend"]] | None


class RestoreOptions(TypedDict, total=False):
    """Options for restoring a session, which complete or replace those in the checkpoint.

    For ``lifetime``, ``idle`` and ``total_fuel``, the smaller value of these and the checkpoint's
    applies.
    """

    mounts: Mapping[str, str | os.PathLike[str]] | None
    tools: Sequence[AnyTool] | None
    id: str | None
    client: str | None
    lifetime: float | None
    idle: float | None
    total_fuel: int | None
    policy: Literal["open", "strict"] | Rules | None
    lease: float | tuple[float, Literal["close", "suspend"]] | None


class SessionBounds(TypedDict, total=False):
    """Limits on the number of sessions, and on those in memory."""

    max: int
    max_awake: int
    suspend_after: float
    restored_bytes: int
    dir: str | os.PathLike[str]


class _LockdownElsewhere(TypedDict, total=False):
    other: str


class LockdownReport(_LockdownElsewhere):
    """What holds a process that was locked down; ``other`` is there on macOS and Windows only."""

    landlock: int | None
    seccomp: bool
    whole: bool
    failures: list[str]


class Settings(TypedDict, total=False):
    """Settings of a runtime. ``None`` means not given."""

    cache: str | os.PathLike[str] | None
    wheel: str | os.PathLike[str] | None
    bundle: str | os.PathLike[str] | None
    bundle_hash: str | None
    temp_dir: str | os.PathLike[str] | None
    file_memory: int | None
    concurrency: int | None
    queue: int | None
    clock_resolution: int | None
    limits: Limits | LimitOptions | None
    ceilings: Limits | LimitOptions | None
    sessions: SessionBounds | None
    memory: Literal["map", "copy"] | None
    isolation: Literal["none", "process"] | None
    progress: bool | Callable[[str | None, float], object] | None
