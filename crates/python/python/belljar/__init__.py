"""Runs untrusted Python in a sandbox inside this process: CPython on WebAssembly.

    import belljar

    run = belljar.run("import numpy as np\\nresult = np.arange(3) * 2")
    run.result                     # array([0, 2, 4])

Errors of the code are data, in ``run.error``. Exceptions are errors of the engine.
"""

from __future__ import annotations

from ._belljar import VERSION as __version__
from ._errors import (
    BelljarError,
    BusyError,
    ClosedError,
    ForkedError,
    NoSuchFileError,
    ProcessError,
    RefusedError,
    RunError,
    ServerError,
    SessionError,
    SetupError,
    StoreError,
)
from ._notebook import Shown, register
from ._runtime import Runtime, arun, default_runtime, run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._connect import connect
    from ._files import SessionFiles
    from ._limits import Limits
    from ._outcome import (
        Completion,
        DataFrameEntry,
        ErrorDetail,
        Event,
        FileEntry,
        HistoryEntry,
        ImageInfo,
        Inspection,
        Outcome,
        PathEntry,
        PlotEntry,
        SessionInfo,
        Table,
        ToolCall,
        Usage,
        Violation,
    )
    from ._run import Run
    from ._session import GuestError, Session
    from ._stored import HeldSession, StoredInfo, StoredSession, StoredSessions
    from ._tools import Tool, ToolError, tool
    from ._values import Opaque, Tagged

__all__ = [
    "BelljarError",
    "BusyError",
    "ClosedError",
    "Completion",
    "DataFrameEntry",
    "ErrorDetail",
    "Event",
    "FileEntry",
    "ForkedError",
    "GuestError",
    "HeldSession",
    "HistoryEntry",
    "ImageInfo",
    "Inspection",
    "Limits",
    "NoSuchFileError",
    "Opaque",
    "Outcome",
    "PathEntry",
    "PlotEntry",
    "ProcessError",
    "RefusedError",
    "Run",
    "RunError",
    "Runtime",
    "ServerError",
    "Session",
    "SessionError",
    "SessionFiles",
    "SessionInfo",
    "SetupError",
    "StoreError",
    "StoredInfo",
    "StoredSession",
    "StoredSessions",
    "Table",
    "Tagged",
    "Tool",
    "ToolCall",
    "ToolError",
    "Usage",
    "Violation",
    "__version__",
    "arun",
    "connect",
    "default_runtime",
    "run",
    "tool",
]


def _page(held: Shown) -> str:
    from ._html import page

    return page(held)


register(_page)

# Names that are loaded on first use, with their modules.
_LAZY = {
    **dict.fromkeys(
        [
            "Completion",
            "DataFrameEntry",
            "ErrorDetail",
            "Event",
            "FileEntry",
            "HistoryEntry",
            "ImageInfo",
            "Inspection",
            "Outcome",
            "PathEntry",
            "PlotEntry",
            "SessionInfo",
            "Table",
            "ToolCall",
            "Usage",
            "Violation",
        ],
        "_outcome",
    ),
    "connect": "_connect",
    "Limits": "_limits",
    "Run": "_run",
    "GuestError": "_session",
    "Session": "_session",
    "SessionFiles": "_files",
    "HeldSession": "_stored",
    "StoredInfo": "_stored",
    "StoredSession": "_stored",
    "StoredSessions": "_stored",
    "Tool": "_tools",
    "ToolError": "_tools",
    "tool": "_tools",
    "Opaque": "_values",
    "Tagged": "_values",
}

if not TYPE_CHECKING:

    def __getattr__(name):
        home = _LAZY.get(name)
        if home is None:
            raise AttributeError(f"module 'belljar' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module("." + home, __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
