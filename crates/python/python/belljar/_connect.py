"""Runtimes that are servers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from ._errors import make
from ._http import Link, connector
from ._limits import limits_of
from ._remote import Runtime as Server
from ._runtime import Runtime

if TYPE_CHECKING:
    import ssl

    from . import _belljar
    from ._limits import LimitOptions, Limits


def connect(
    url: str | None = None,
    key: str | None = None,
    *,
    timeout: float | None = 60.0,
    retries: int = 4,
    ssl_context: ssl.SSLContext | None = None,
    keep_sessions: bool = False,
    limits: Limits | LimitOptions | None = None,
) -> Runtime:
    """Returns a runtime whose runs and sessions are those of a server (``belljar serve``).

    ``url`` is ``https://HOST``, ``http://HOST:PORT`` or ``unix:/PATH``, by default
    ``BELLJAR_URL``; ``key`` is by default ``BELLJAR_KEY``. Nothing is sent before the first call.

    ``timeout`` is how many seconds the server may be silent, beyond the time that a run may take;
    None waits for ever. ``retries`` is how often a request is sent again. Sessions made through
    this object end with it unless ``keep_sessions``. ``limits`` are those of new runs and sessions
    that give no others.
    """
    url = url or os.environ.get("BELLJAR_URL")
    if not url:
        message = "connect needs a URL: give one, or set BELLJAR_URL"
        raise make(message, "refused", reasons=[("url", "missing", message)])
    url, key = url.rstrip("/"), key or os.environ.get("BELLJAR_KEY")
    link = Link(url, key, timeout, retries, *connector(url, ssl_context))
    server = Server(link, keep_sessions, limits_of(limits or {}, "limits"))
    runtime = Runtime.__new__(Runtime)
    # Has the methods of the native half.
    runtime._take(cast("_belljar.Runtime", server))
    return runtime
