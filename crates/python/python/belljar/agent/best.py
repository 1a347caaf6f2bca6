"""Runs alternatives from one state and keeps the best."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import belljar

Score = Callable[["belljar.Outcome"], Any]


@dataclass(frozen=True)
class Best:
    """The best alternative: its session and its run, and the runs of all alternatives in order."""

    index: int
    session: belljar.Session = field(repr=False)
    run: belljar.Run
    runs: Sequence[belljar.Run] = field(repr=False)
    scores: Sequence[Any]

    @property
    def outcome(self) -> belljar.Outcome:
        return self.run.outcome


def score(outcome: belljar.Outcome) -> tuple[bool, bool, bool]:
    """Prefers runs without an error, then with output, then without warnings."""
    shown = outcome.result is not None or bool(outcome.stdout) or bool(outcome.files)
    return outcome.success, shown, not outcome.stderr


async def abest_of(
    session: belljar.Session,
    codes: Iterable[str],
    *,
    score: Score = score,
    **run_options: Any,
) -> Best:
    """Runs each code on a fork of `session`, all at once, and keeps the one with the highest score.

    `session` is unchanged. The other forks are closed; the best one belongs to the caller, who has
    to close it. Of equal scores the first wins.
    """
    codes = _at_least_one(codes)
    forks: list[belljar.Session] = []
    try:
        for _ in codes:
            forks.append(await session.afork())
        runs = await asyncio.gather(
            *(fork.arun(code, **run_options) for fork, code in zip(forks, codes, strict=True))
        )
        return _keep(forks, runs, score)
    except BaseException:
        _close(forks)
        raise


def best_of(
    session: belljar.Session,
    codes: Iterable[str],
    *,
    score: Score = score,
    **run_options: Any,
) -> Best:
    """Synchronous variant of `abest_of`."""
    codes = _at_least_one(codes)
    forks: list[belljar.Session] = []
    try:
        for _ in codes:
            forks.append(session.fork())
        with ThreadPoolExecutor(min(len(codes), os.cpu_count() or 1)) as threads:
            runs = list(threads.map(lambda fork, code: fork.run(code, **run_options), forks, codes))
        return _keep(forks, runs, score)
    except BaseException:
        _close(forks)
        raise


def _at_least_one(codes: Iterable[str]) -> list[str]:
    codes = list(codes)
    if not codes:
        raise ValueError("best_of needs at least one piece of code")
    return codes


def _keep(forks: list[belljar.Session], runs: Sequence[belljar.Run], score: Score) -> Best:
    scores = [score(run.outcome) for run in runs]
    index = max(range(len(scores)), key=scores.__getitem__)
    lost = [fork for number, fork in enumerate(forks) if number != index]
    # The result need not wait until the memory of the others is freed.
    threading.Thread(target=_close, args=(lost,), name="belljar-close", daemon=True).start()
    return Best(index, forks[index], runs[index], tuple(runs), tuple(scores))


def _close(sessions: Iterable[belljar.Session]) -> None:
    for session in sessions:
        session.close()
