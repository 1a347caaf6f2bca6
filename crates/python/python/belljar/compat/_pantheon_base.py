"""Base classes of Pantheon's toolsets, for use without Pantheon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def tool(function: Any = None, *, exclude: bool = False, **parameters: Any) -> Any:
    """Marks a method as a tool; excluded tools are hidden from the model."""

    def mark(function: Function) -> Function:
        function._is_tool = True  # type: ignore[attr-defined]
        function._exclude = exclude  # type: ignore[attr-defined]
        function._tool_params = parameters  # type: ignore[attr-defined]
        return function

    return mark if function is None else mark(function)


class ToolSet:
    """A named collection of tools: the marked methods."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._service_name = name
        self._worker_kwargs = kwargs
        self._context: dict[str, Any] = {}

    @property
    def toolset_name(self) -> str:
        return self._service_name

    @property
    def functions(self) -> dict[str, tuple[Callable[..., Any], Mapping[str, Any]]]:
        kind = type(self)
        names = [name for name in dir(kind) if getattr(getattr(kind, name), "_is_tool", False)]
        return {name: (getattr(self, name), getattr(kind, name)._tool_params) for name in names}

    @property
    def tool_functions(self) -> dict[str, tuple[Callable[..., Any], Mapping[str, Any]]]:
        return {
            name: (function, parameters)
            for name, (function, parameters) in self.functions.items()
            if not function._exclude  # type: ignore[attr-defined]
        }

    def get_context(self) -> dict[str, Any]:
        return self._context

    def _get_effective_workdir(self) -> str | None:
        return self.get_context().get("workdir")

    async def run_setup(self) -> None:
        pass

    async def cleanup(self) -> None:
        pass
