"""The parameters of a fleet: costs, nodes, stores, and mixes of sessions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import ceil
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Costs:
    """Processor time in seconds and memory in MiB, as measured on one core."""

    request: float
    turn: float
    recovery_point: float
    start: float
    fork: float
    suspend: tuple[float, float]
    wake: tuple[float, float]
    write: tuple[float, float]
    stored_per_state: float
    awake_mib: float
    asleep_mib: float
    # 0 if a state is one object, written as a whole; else the size of its parts.
    chunk_mib: float

    @staticmethod
    def read(name: str = "measured", path: Path = HERE / "costs.json") -> Costs:
        held = json.loads(path.read_text())[name]
        return Costs(
            *(
                held[f"{key}_ms"] / 1000
                for key in ("request", "turn", "recovery_point", "start", "fork")
            ),
            *(_line(held[f"{key}_ms"]) for key in ("suspend", "wake", "write")),
            held["stored_per_state"],
            held["awake_mib"],
            held["asleep_mib"],
            held["chunk_mib"],
        )

    def chunks(self, mib: float) -> int:
        """The number of objects in this much state, without the list of them."""
        return ceil(mib / self.chunk_mib) if self.chunk_mib else 0


def _line(points: dict[str, float]) -> tuple[float, float]:
    """Seconds for an empty state, and for each MiB, through two measured points."""
    at_0, at_20 = points["at_0_mib"] / 1000, points["at_20_mib"] / 1000
    return at_0, (at_20 - at_0) / 20


@dataclass(frozen=True)
class Store:
    """Where states are stored: seconds to the first byte, and the throughput of a client."""

    name: str
    latency: tuple[float, float]
    mib_per_second: float
    reads_per_second: float
    writes_per_second: float


STORES = {
    # "Best practices design patterns: optimizing Amazon S3 performance", in Amazon's guide for
    # users of S3: 100 to 200 ms to the first byte, 85 to 90 MB/s for a request, and for each prefix
    # at least 5,500 reads and 3,500 writes a second.
    "s3": Store("s3", (0.1, 0.2), 81, 5500, 3500),
    # "Optimizing S3 Express One Zone performance", the same guide: less than ten milliseconds, and
    # for each directory bucket by default 200,000 reads and 100,000 writes a second.
    "express": Store("express", (0.003, 0.009), 81, 200_000, 100_000),
}


@dataclass(frozen=True)
class NodeKind:
    """A machine; by default a small one, like that of the measured costs."""

    cores: int = 2
    memory_mib: float = 8192
    # Memory of the system, the program and its images.
    reserved_mib: float = 1024
    disk_mib: float = 200_000
    disk_mib_per_second: float = 200
    network_mib_per_second: float = 300


@dataclass(frozen=True)
class Mix:
    """The behaviour of sessions. Times are means of exponential distributions."""

    name: str
    think: float
    away: float
    # The share of longer pauses.
    away_share: float
    guest: float
    state_mib: float
    changed_mib: float
    turns: float
    fork_share: float = 0.0

    @property
    def pause(self) -> float:
        """Mean seconds between two turns."""
        return self.think * (1 - self.away_share) + self.away * self.away_share

    @property
    def rate(self) -> float:
        """Turns of a session per second: its first has no pause before it."""
        return (self.turns + 1) / self.turns / self.pause

    @property
    def away_found(self) -> float:
        """The share of long pauses among all sessions that pause at a given moment."""
        return self.away * self.away_share / self.pause


MIXES = {
    mix.name: mix
    for mix in (
        Mix("chat", 30, 1800, 0.2, 0.03, 5, 1, 20),
        Mix("analysis", 60, 3600, 0.3, 0.3, 40, 5, 30),
        Mix("search", 3, 600, 0.05, 0.1, 10, 1, 40, fork_share=0.0125),
        Mix("assistant", 60, 3600, 0.5, 0.02, 2, 0.5, 100),
    )
}
