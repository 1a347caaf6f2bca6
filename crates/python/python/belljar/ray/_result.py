"""What comes back from a cluster: plain data, which pickles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import belljar
from belljar import _errors


class LostError(belljar.BelljarError):
    """The workers that had this to do were lost, each in the middle of it."""


@dataclass(frozen=True)
class Result:
    """What became of one input.

    ``failure`` is None, or the exception that the engine or the cluster did not do it for: then
    there is no outcome, and to ask for any part of one raises it. ``index`` counts the inputs from
    0; ``attempts`` says how often a worker had it to do, and ``losses`` what became of those that
    did not end it; ``worker`` is the process that did, as ``pid@node``.
    """

    index: int
    attempts: int
    losses: tuple[str, ...]
    worker: str | None
    failure: Exception | None
    _outcome: belljar.Outcome | None = field(repr=False)
    _contents: Mapping[str, bytes] = field(repr=False)
    _value: Any = field(repr=False, default=None)

    @property
    def outcome(self) -> belljar.Outcome:
        """What the run did."""
        if self._outcome is None:
            assert self.failure is not None
            raise self.failure
        return self._outcome

    @property
    def success(self) -> bool:
        """Whether the code was run, to its end."""
        return self._outcome is not None and self._outcome.success

    @property
    def result(self) -> Any:
        """The value asked for. Arrays in it are Ray's, and cannot be written to."""
        return self.outcome.result

    @property
    def stdout(self) -> str:
        """Everything written to standard output."""
        return self.outcome.stdout

    @property
    def stderr(self) -> str:
        """Tracebacks, warnings, and what the code wrote to standard error."""
        return self.outcome.stderr

    @property
    def error(self) -> belljar.ErrorDetail | None:
        """What the code did wrong, or None."""
        return self.outcome.error

    def __getitem__(self, path: str) -> bytes:
        """The bytes of a file that was collected."""
        if path in self._contents:
            return self._contents[path]
        if any(file.path == path for file in self.outcome.files):
            hint = "collect_bytes=... says how many bytes of files each result brings along"
            raise _errors.make(
                f"the run left {path}, but it was not collected", "no_such_file", hint=hint
            )
        raise _errors.make(f"the run left no file {path}", "no_such_file")

    def __contains__(self, path: object) -> bool:
        return path in self._contents

    def __iter__(self) -> Iterator[str]:
        """The paths of the files that were collected."""
        return iter(self._contents)
