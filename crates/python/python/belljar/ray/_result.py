"""Results from a cluster: plain data that can be pickled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import belljar
from belljar import _errors


class LostError(belljar.BelljarError):
    """Several workers were lost, each while processing this input."""


@dataclass(frozen=True)
class Result:
    """The result of one input.

    ``failure`` is ``None``, or the exception of the engine or the cluster; then there is no
    outcome, and accessing any part of it raises the exception. ``index`` counts the inputs from 0;
    ``attempts`` is the number of workers that tried, and ``losses`` describes those that were lost;
    ``worker`` is the process that finished, as ``pid@node``.
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
        """The outcome of the run."""
        if self._outcome is None:
            assert self.failure is not None
            raise self.failure
        return self._outcome

    @property
    def success(self) -> bool:
        """Whether the code ran successfully."""
        return self._outcome is not None and self._outcome.success

    @property
    def result(self) -> Any:
        """The result. Its arrays belong to Ray and are read-only."""
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
        """The error, or None on success."""
        return self.outcome.error

    def __getitem__(self, path: str) -> bytes:
        """Returns the bytes of a collected file."""
        if path in self._contents:
            return self._contents[path]
        if any(file.path == path for file in self.outcome.files):
            hint = "collect_bytes=... sets how many bytes of files each result includes"
            raise _errors.make(
                f"the run left {path}, but it was not collected", "no_such_file", hint=hint
            )
        raise _errors.make(f"the run left no file {path}", "no_such_file")

    def __contains__(self, path: object) -> bool:
        return path in self._contents

    def __iter__(self) -> Iterator[str]:
        """Iterates over the paths of the collected files."""
        return iter(self._contents)
