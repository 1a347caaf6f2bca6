"""The options of runs and sessions: their names, and their conversion for the engine."""

from __future__ import annotations

import os

from ._errors import unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Extras = dict[str, Any]

RUN_OPTIONS = frozenset(
    """aliases args capture cwd deterministic dialect echo env files fuel image input limits
    max_files memory_mb mounts on_event output_bytes policy result run_env seed stdin threads
    timeout tool_limits tools typed variables workspace_mb""".split()
)
_OWN_OPTIONS = frozenset("client history idle labels lease lifetime total_fuel".split())
SESSION_OPTIONS = (
    RUN_OPTIONS
    - frozenset("capture dialect echo on_event result run_env stdin threads typed".split())
    | _OWN_OPTIONS
    | {"init_code"}
)
RESTORE_OPTIONS = frozenset("client id idle lease lifetime mounts policy tools total_fuel".split())


def split(
    options: Mapping[str, Any], of: str, known: frozenset[str]
) -> tuple[dict[str, Any] | None, Extras | None]:
    """Splits options into those that JSON can represent, and the others."""
    asked: dict[str, Any] = {}
    extras: Extras = {}
    typed = True
    for name, value in flat(of, options).items():
        if name not in known:
            raise TypeError(unknown(of, name, known))
        if not is_given(name, value):
            continue
        if name == "typed":
            typed = bool(value)
        elif name in _READERS:
            _READERS[name](asked, extras, value)
        else:
            # The engine takes it unchanged.
            asked[name] = value
    if not typed:
        extras["plain"] = True
    elif "plain" not in extras:
        extras["plain"] = False
    return asked or None, extras


def is_given(name: str, value: Any) -> bool:
    """Whether an option is given. A timeout of None is: it means no limit of the run's own."""
    return value is not None or name == "timeout"


def flat(of: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options, with those in ``limits`` among them."""
    limits = options.get("limits")
    if limits is None:
        return options
    from ._limits import limits_of

    held = {
        name: value for name, value in options.items() if name != "limits" and is_given(name, value)
    }
    limits = limits_of(limits, "limits")
    for name in limits:
        if name in held:
            raise TypeError(
                f"{of} has {name!r} twice, as an option and in limits: "
                f"leave one out, or change the limits with Limits.replace"
            )
    return {**held, **limits}


def own_of(options: dict[str, Any]) -> dict[str, Any] | None:
    """Separates a session's own options from those of its runs."""
    own = {}
    for name in _OWN_OPTIONS & options.keys():
        value = options.pop(name)
        if value is None:
            continue
        if name == "lease" and not isinstance(value, tuple):
            value = (value, "close")
        own[name] = dict(value) if name == "labels" else value
    return own or None


def restored(of: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Options for restoring a session, which complete or replace those in the checkpoint."""
    for name in options:
        if name not in RESTORE_OPTIONS:
            raise TypeError(unknown(of, name, RESTORE_OPTIONS))
    rest = {name: value for name, value in options.items() if value is not None}
    own = own_of(rest) or {}
    for name, value in rest.items():
        if name in _READERS:
            _READERS[name](own, own, value)
        else:
            own[name] = value
    return own or None


def content(value: Any) -> Any:
    """The content of a file for the engine: text, bytes, or the path of a host file."""
    if isinstance(value, (str, bytes, bytearray)) or hasattr(value, "__fspath__"):
        return value
    if isinstance(value, memoryview):
        return value.tobytes()
    raise TypeError(
        f"a file is text, bytes or a path (pathlib.Path) to copy, not {type(value).__name__}"
    )


def _files(asked: dict[str, Any], extras: Extras, value: Mapping[str, Any]) -> None:
    extras["files"] = {str(path): content(held) for path, held in value.items()}


def _mounts(asked: dict[str, Any], extras: Extras, value: Mapping[str, Any]) -> None:
    extras["mounts"] = mounts_of(value)


def mounts_of(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of a host directory and its path in the guest."""
    return [(os.fspath(host), guest) for guest, host in value.items()]


def _tools(asked: dict[str, Any], extras: Extras, value: Sequence[Any]) -> None:
    from ._tools import native_tools

    extras["tools"] = native_tools(value)


def _policy(asked: dict[str, Any], extras: Extras, value: Any) -> None:
    if hasattr(value, "items"):
        rules = value.get("custom", value)
        value = {"custom": {name: list(held) for name, held in rules.items()}}
    asked["policy"] = value


def _deterministic(asked: dict[str, Any], extras: Extras, value: Any) -> None:
    if value is False:
        return
    held = {} if value is True else dict(value)
    asked["deterministic"] = {**held, **asked.get("deterministic", {})}


def _seed(asked: dict[str, Any], extras: Extras, value: int) -> None:
    asked["deterministic"] = {**asked.get("deterministic", {}), "seed": value}


def _capture(asked: dict[str, Any], extras: Extras, value: Mapping[str, Any]) -> None:
    asked["capture"] = dict(value)
    if "typed" in value:
        raise TypeError("whether a result is typed is an option of its own: typed=False")


def _input(asked: dict[str, Any], extras: Extras, value: Any) -> None:
    from ._tools import starter

    extras["answerer"] = starter(value)


def _on_event(asked: dict[str, Any], extras: Extras, value: Any) -> None:
    from ._outcome import Event

    extras["on_event"] = lambda data: value(Event(data))


def _stdin(asked: dict[str, Any], extras: Extras, value: Any) -> None:
    extras["stdin"] = value


def _variables(asked: dict[str, Any], extras: Extras, value: Mapping[str, Any]) -> None:
    extras["variables"] = dict(value)


def _tool_limits(asked: dict[str, Any], extras: Extras, value: Mapping[str, Any]) -> None:
    extras["tool_limits"] = dict(value)


def _strings(name: str) -> Callable[[dict[str, Any], Extras, Any], None]:
    def read(asked: dict[str, Any], extras: Extras, value: Any) -> None:
        if isinstance(value, str):
            raise TypeError(f"{name} is a sequence of texts, not one text")
        asked[name] = list(value)

    return read


def _pairs(name: str) -> Callable[[dict[str, Any], Extras, Any], None]:
    def read(asked: dict[str, Any], extras: Extras, value: Any) -> None:
        asked[name] = dict(value)

    return read


def _result(asked: dict[str, Any], extras: Extras, value: str) -> None:
    asked["result_var"] = value


_READERS: dict[str, Callable[[dict[str, Any], Extras, Any], None]] = {
    "aliases": _strings("aliases"),
    "args": _strings("args"),
    "capture": _capture,
    "deterministic": _deterministic,
    "env": _pairs("env"),
    "files": _files,
    "input": _input,
    "mounts": _mounts,
    "on_event": _on_event,
    "policy": _policy,
    "result": _result,
    "run_env": _pairs("run_env"),
    "seed": _seed,
    "stdin": _stdin,
    "tool_limits": _tool_limits,
    "tools": _tools,
    "variables": _variables,
}
