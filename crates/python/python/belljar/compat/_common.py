"""Helpers shared by the modules for frameworks."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterable, Mapping
from typing import Any

import belljar
from belljar import _options, _runtime


def runtime_or_default(runtime: belljar.Runtime | None) -> belljar.Runtime:
    """Returns the given runtime, or the default one of this process.

    Called at first use and not earlier: frameworks copy their tools into other processes, and a
    runtime belongs to the process that created it.
    """
    return belljar.default_runtime() if runtime is None else runtime


async def aruntime_or_default(runtime: belljar.Runtime | None) -> belljar.Runtime:
    """Asynchronous variant, because creating a runtime would block the event loop."""
    if runtime is None:
        runtime = _runtime.existing_default()
    return await asyncio.to_thread(belljar.default_runtime) if runtime is None else runtime


def with_usual(options: Mapping[str, Any], **usual: Any) -> dict[str, Any]:
    """Options of a run or a session, and these limits where they name no others, in `limits` or by
    themselves.
    """
    return {**usual, **_options.flat("the adapter", options)}


def result_of(outcome: belljar.Outcome) -> Any:
    """Returns the result of a run with its type, or its repr if it has no typed form."""
    result = outcome.result
    return result.repr if isinstance(result, belljar.Opaque) else result


class Installer:
    """Replaces existing classes in the modules of a framework."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._modules = tuple(modules)
        self._replaced: list[tuple[Any, str, Any]] = []

    def install(self, values: Mapping[str, Any]) -> None:
        """Replaces each of `values` in all modules that have its name.

        Code that has already imported a name from a module keeps the original.
        """
        for name in self._modules:
            module = importlib.import_module(name)
            for key, value in values.items():
                there = getattr(module, key, None)
                if there is not None and there is not value:
                    self._replaced.append((module, key, there))
                    setattr(module, key, value)

    def uninstall(self) -> None:
        """Restores what `install` replaced."""
        while self._replaced:
            module, key, value = self._replaced.pop()
            setattr(module, key, value)
