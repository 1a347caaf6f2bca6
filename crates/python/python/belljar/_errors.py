"""Exceptions for errors of the engine. Errors of the code are in the outcome of its run."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class BelljarError(Exception):
    """An error of the engine.

    ``code`` identifies the error for programs; ``blame`` is its cause (``caller``, ``guest``,
    ``engine``, ``machine``); ``hint`` is advice, if available.
    """

    code: str
    blame: str
    hint: str | None

    def __init__(
        self, message: str, code: str = "error", blame: str = "engine", hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.blame = blame
        self.hint = hint

    def __str__(self) -> str:
        text = str(self.args[0])
        return f"{text} (hint: {self.hint})" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        return _remade, (type(self), self.args[0], dict(self.__dict__))


class RunError(Exception):
    """The code of a run failed: what :meth:`Run.raise_for_error` raises.

    ``error`` has the parts of the error, ``outcome`` everything that the run gave.
    """

    error: Any
    outcome: Any

    def __init__(self, outcome: Any) -> None:
        super().__init__(outcome)
        self.error = outcome.error
        self.outcome = outcome

    def __str__(self) -> str:
        return str(self.error)


class Reason:
    """A reason for refusing a request: the option, the kind of mistake, and a sentence."""

    __slots__ = ("field", "kind", "message")

    def __init__(self, field: str, kind: str, message: str) -> None:
        self.field = field
        self.kind = kind
        self.message = message

    def __repr__(self) -> str:
        return f"Reason({self.field!r}, {self.kind!r}, {self.message!r})"


class RefusedError(BelljarError, ValueError):
    """The request is invalid; ``reasons`` lists all mistakes."""

    reasons: tuple[Reason, ...] = ()


class BusyError(BelljarError):
    """The queue of the runtime is full; of a server, also: a limit of the key is reached."""


class ForkedError(BelljarError):
    """The handle belongs to the process that this one was forked from."""


class ClosedError(BelljarError):
    """The runtime was closed, or the interpreter is exiting."""


class SetupError(BelljarError):
    """The engine or an image cannot be set up: cache, download, compiler, or recipe."""


class SessionError(BelljarError):
    """A session or a checkpoint cannot be used."""


class StoreError(BelljarError):
    """A store of sessions failed."""


class ServerError(BelljarError):
    """A server cannot be reached, does not answer as one, or does not accept the key."""


class ProcessError(BelljarError):
    """The process of a runtime has ended during a call, or cannot be started."""


class NoSuchFileError(BelljarError, LookupError):
    """A run or a session has no file of that name."""


_BY_CODE = {
    "refused": RefusedError,
    "busy": BusyError,
    "forked": ForkedError,
    "closed": ClosedError,
    "no_such_file": NoSuchFileError,
    "run.not_found": NoSuchFileError,
    "bad_field": RefusedError,
    "bad_query": RefusedError,
    "limit": BusyError,
    "memory_budget": BusyError,
    "stopping": BusyError,
    "no_key": ServerError,
}
_BY_AREA = {
    "cache": SetupError,
    "bundle": SetupError,
    "artifact": SetupError,
    "code": SetupError,
    "image": SetupError,
    "recipe": SetupError,
    "bake": SetupError,
    "process": ProcessError,
    "session": SessionError,
    "store": StoreError,
    "server": ServerError,
}


def make(
    message: str,
    code: str,
    blame: str = "caller",
    hint: str | None = None,
    reasons: list[tuple[str, str, str]] | None = None,
) -> BelljarError:
    """The exception for an error of the engine."""
    kind = _BY_CODE.get(code) or _BY_AREA.get(code.partition(".")[0], BelljarError)
    error = kind(message, code, blame, hint)
    if isinstance(error, RefusedError):
        error.reasons = tuple(Reason(*reason) for reason in reasons or ())
    return error


def _remade(kind: type[BelljarError], message: str, attributes: dict[str, object]) -> BelljarError:
    error = kind(message)
    error.__dict__.update(attributes)
    return error


def unknown(of: str, name: str, known: Iterable[str]) -> str:
    """The error message for an unknown option."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{of} has no option {name!r}{hint}"
