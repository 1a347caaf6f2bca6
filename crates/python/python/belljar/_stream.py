"""The events of a run on a server, from as many connections as it takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ._errors import BelljarError
from ._http import Aborted, pause_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import BinaryIO

    from ._http import Answer, Call, Link

# Seconds after the first attempt in which a request is sent again that a server does not know.
# Later the server may have forgotten that it ran the code.
_AGAIN = 30.0
_LOST = ("server.lost", "server.timeout", "server.unreachable")


class Stream:
    """The events of a run. With an id, it goes on after a lost connection, and no event is lost or
    comes twice.
    """

    def __init__(
        self,
        link: Link,
        call: Call,
        path: str,
        body: bytes | Callable[[], BinaryIO],
        headers: Mapping[str, str],
        silence: float | None,
        id: str | None,
    ) -> None:
        self._link = link
        self._call = call
        self._path = path
        self._body = body
        self._headers = headers
        self._silence = silence
        self._answer: Answer | None = None
        call.stream = None if id is None else f"/v1/streams/{id}"

    def events(self) -> Iterator[tuple[str, Any]]:
        """Each type and its data, up to the outcome or the problem."""
        seen = failures = 0
        is_first = True
        begun = time.monotonic()
        while True:
            try:
                answer = self._answer = self._open(seen, is_first, begun)
                is_first = False
                for number, name, data in answer.events():
                    if self._call.stream is not None:
                        if number <= seen:
                            continue
                        if number > seen + 1:
                            raise self._link.strange(answer.status)
                    seen, failures = number, 0
                    yield name, data
                    if name in ("outcome", "problem"):
                        return
                end = EOFError("the stream of the run has ended without its outcome")
                raise answer.broken(end)
            except BelljarError as error:
                is_lost = error.code in _LOST and not self._link.is_gone
                # What was never reached was asked for several times.
                is_new = is_first and error.code == "server.unreachable"
                is_lost = is_lost and self._call.stream is not None and not is_new
                if not is_lost or failures >= self._link.retries:
                    raise
                is_first = False
            if self._call.aborted.wait(pause_after(failures)):
                raise Aborted
            failures += 1

    def _open(self, seen: int, is_first: bool, begun: float) -> Answer:
        ask, call, stream = self._link.ask, self._call, self._call.stream
        if stream is not None and not is_first:
            headers = {"Accept": "text/event-stream"}
            if seen:
                headers["Last-Event-ID"] = str(seen)
            try:
                return ask(call, "GET", stream, None, headers, silence=self._silence)
            except BelljarError as error:
                is_late = time.monotonic() - begun > _AGAIN
                if seen or is_late or error.code != "stream.not_found":
                    raise
                # The request has not arrived.
        return ask(
            call,
            "POST",
            self._path,
            self._body,
            self._headers,
            # Whether it has arrived is asked for first.
            repeatable=False,
            silence=self._silence,
        )

    def close(self, is_over: bool) -> None:
        """Ends the run, unless it is over."""
        if self._answer is not None:
            self._answer.close()
        stream, self._call.stream = self._call.stream, None
        if stream is not None and not is_over:
            link = self._link
            link.later(lambda: link.end(stream))
