"""Shows the progress of the first setup, in a notebook or a terminal."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def teller() -> Callable[[str | None, float], None]:
    """Chooses the receiver of progress: called with each step and its usual seconds, then with
    None.
    """
    if _in_notebook():
        return _Notebook()
    if sys.stderr is not None and sys.stderr.isatty():
        return _Terminal()
    return lambda text, seconds: None


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    if ipython is None or "ipykernel" not in sys.modules:
        return False
    shell = ipython.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


class _Terminal:
    """Shows progress on one line of the terminal, with the elapsed time."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, text: str | None, seconds: float) -> None:
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None
        if text is not None:
            self._over.clear()
            self._thread = threading.Thread(target=self._show, args=(text, seconds), daemon=True)
            self._thread.start()

    def _show(self, text: str, seconds: float) -> None:
        began = time.monotonic()
        is_shown = False
        # Short steps are not shown.
        while not self._over.wait(0.5):
            passed = time.monotonic() - began
            line = f"\r\x1b[Kbelljar: {text} ({passed:.0f} s of about {seconds:.0f})"
            sys.stderr.write(line)
            sys.stderr.flush()
            is_shown = True
        if is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class _Notebook:
    """Shows progress in one notebook output."""

    def __init__(self) -> None:
        self._handle: object = None
        self._began = 0.0
        self._text = ""

    def __call__(self, text: str | None, seconds: float) -> None:
        if text is not None:
            self._began, self._text = time.monotonic(), text
            self._tell(f"belljar: {text} (about {seconds:.0f} s)")
        else:
            passed = time.monotonic() - self._began
            self._tell(f"belljar: {self._text} (done in {passed:.1f} s)")

    def _tell(self, line: str) -> None:
        from IPython.display import display

        data = {"text/plain": line}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)  # type: ignore[attr-defined]
