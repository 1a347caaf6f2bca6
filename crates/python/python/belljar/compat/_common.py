"""What the modules for single frameworks share."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterable, Mapping
from typing import Any

import belljar
from belljar import _runtime


def runtime_or_default(runtime: belljar.Runtime | None) -> belljar.Runtime:
    """The runtime that was given, or the one of this process.

    Asked for at the first use and not before: frameworks copy their tools into other processes,
    and a runtime belongs to the one that made it.
    """
    return belljar.default_runtime() if runtime is None else runtime


async def aruntime_or_default(runtime: belljar.Runtime | None) -> belljar.Runtime:
    """The same for an event loop, which making a runtime would hold up."""
    if runtime is None:
        runtime = _runtime.existing_default()
    return await asyncio.to_thread(belljar.default_runtime) if runtime is None else runtime


def result_of(outcome: belljar.Outcome) -> Any:
    """The result of a run, as itself, or as its repr where it has no typed form."""
    result = outcome.result
    return result.repr if isinstance(result, belljar.Opaque) else result


class Installer:
    """Puts classes into the modules of a framework under the names that are there."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._modules = tuple(modules)
        self._replaced: list[tuple[Any, str, Any]] = []

    def install(self, values: Mapping[str, Any]) -> None:
        """Replaces each of `values` wherever one of the modules has that name.

        Code that took a name out of a module before this keeps what it took.
        """
        for name in self._modules:
            module = importlib.import_module(name)
            for key, value in values.items():
                there = getattr(module, key, None)
                if there is not None and there is not value:
                    self._replaced.append((module, key, there))
                    setattr(module, key, value)

    def uninstall(self) -> None:
        """Puts back what `install` replaced."""
        while self._replaced:
            module, key, value = self._replaced.pop()
            setattr(module, key, value)
