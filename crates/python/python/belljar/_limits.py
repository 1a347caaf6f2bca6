"""The limits of runs, as one object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from ._errors import unknown

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LimitOptions(TypedDict, total=False):
    """Limits of runs: seconds, MiB, bytes. ``None`` means not given, except for ``timeout``: a run
    may then take as long as the runtime allows.
    """

    timeout: float | None
    memory_mb: int | None
    fuel: int | None
    output_bytes: int | None
    workspace_mb: int | None
    max_files: int | None


class Limits(Mapping[str, "float | None"]):
    """Limits of runs, for the option ``limits`` of runs, sessions, runtimes, pools and adapters.

        small = belljar.Limits(timeout=2, memory_mb=64)
        belljar.run(code, limits=small)
        belljar.run(code, limits=small.replace(timeout=None))

    An immutable mapping of the limits that are given: ``timeout`` (seconds, or None for as long as
    the runtime allows), ``memory_mb``, ``fuel``, ``output_bytes``, ``workspace_mb``, ``max_files``.
    """

    __slots__ = ("_held",)

    def __init__(self, **limits: Unpack[LimitOptions]) -> None:
        self._held = limits_of(limits, "Limits")

    def replace(self, **limits: Unpack[LimitOptions]) -> Limits:
        """These limits with some others. ``None`` removes a limit."""
        replaced = Limits()
        replaced._held = limits_of({**self._held, **limits}, "Limits")
        return replaced

    def __getitem__(self, name: str) -> float | None:
        limit: float | None = self._held[name]
        return limit

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __hash__(self) -> int:
        return hash(frozenset(self._held.items()))

    def __repr__(self) -> str:
        return f"Limits({', '.join(f'{name}={limit!r}' for name, limit in self._held.items())})"


def limits_of(limits: Mapping[str, Any], of: str) -> dict[str, Any]:
    """The limits that are given."""
    if not isinstance(limits, Mapping):
        kind = f"{type(limits).__module__}.{type(limits).__qualname__}"
        raise TypeError(f"{of} takes a belljar.Limits or a dictionary, not {kind}")
    known = LimitOptions.__annotations__
    for name in limits:
        if name not in known:
            raise TypeError(unknown(of, name, known))
    return {name: limit for name, limit in limits.items() if limit is not None or name == "timeout"}
