"""The best of several ways on from one state."""

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
    """The way that was kept: its session and its run, and the runs of all ways in their order."""

    index: int
    session: belljar.Session = field(repr=False)
    run: belljar.Run
    runs: Sequence[belljar.Run] = field(repr=False)
    scores: Sequence[Any]

    @property
    def outcome(self) -> belljar.Outcome:
        return self.run.outcome


def score(outcome: belljar.Outcome) -> tuple[bool, bool, bool]:
    """Better is what ran to its end, then what shows something, then what warns of nothing."""
    shown = outcome.result is not None or bool(outcome.stdout) or bool(outcome.files)
    return outcome.success, shown, not outcome.stderr


async def abest_of(
    session: belljar.Session,
    codes: Iterable[str],
    *,
    score: Score = score,
    **run_options: Any,
) -> Best:
    """Runs every code on a fork of `session`, all at once, and keeps the one that scores highest.

    `session` itself stays as it is. The forks that lost are closed; the one that won is the
    caller's to go on with, and to close. Of equals the first wins.
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
    """`abest_of` for programs without an event loop."""
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
    # Whoever waits for the best need not wait until the memory of the others is free.
    threading.Thread(target=_close, args=(lost,), name="belljar-close", daemon=True).start()
    return Best(index, forks[index], runs[index], tuple(runs), tuple(scores))


def _close(sessions: Iterable[belljar.Session]) -> None:
    for session in sessions:
        session.close()
