"""What is closed before the interpreter exits."""

from __future__ import annotations

import atexit
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Live:
    def __init__(self) -> None:
        self._all: set[Any] = set()

    def add(self, runtime: Any) -> None:
        import weakref

        self._all.add(weakref.ref(runtime, self._all.discard))

    def close(self) -> None:
        for reference in list(self._all):
            runtime = reference()
            if runtime is not None:
                runtime.close()


_live = _Live()


def close_at_exit(runtime: Any) -> None:
    """Has the runtime closed if it is there when the interpreter exits."""
    _live.add(runtime)


def _in_child() -> None:
    # They belong to the process before the fork.
    global _live
    _live = _Live()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
atexit.register(lambda: _live.close())
