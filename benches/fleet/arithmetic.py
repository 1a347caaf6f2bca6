"""Closed formulas for a fleet, to check the simulation."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, factorial

from fleet import READS_BEFORE, REMOVALS, WRITES_AFTER, WRITES_BEFORE, Plan

# Above this utilization, queues grow without bound.
MAX_BUSY = 0.8


@dataclass(frozen=True)
class Bound:
    """The maximum number of sessions of a node if only one resource mattered."""

    resource: str
    sessions: float


def wake_share(plan: Plan) -> float:
    """The share of turns whose session is suspended or on another node, with memory for all."""
    mix, limit = plan.mix, plan.suspend_after
    asleep = (1 - mix.away_share) * exp(-limit / mix.think) + mix.away_share * exp(
        -limit / mix.away
    )
    if plan.store is not None and not plan.is_sticky:
        asleep = 1 - (1 - asleep) / plan.nodes
    # All except the first.
    return asleep * mix.turns / (mix.turns + 1)


def awake_share(plan: Plan) -> float:
    """The share of a session's life in which it is active: pauses, cut where it is suspended."""
    mix, limit = plan.mix, plan.suspend_after
    near = mix.think * (1 - exp(-limit / mix.think)) * (1 - mix.away_share)
    far = mix.away * (1 - exp(-limit / mix.away)) * mix.away_share
    return (near + far) / mix.pause


def turn_seconds(plan: Plan) -> float:
    """Processor time of a turn, with its follow-up and its share of resuming and creating."""
    mix, costs = plan.mix, plan.costs
    seconds = (
        costs.request
        + costs.turn
        + mix.guest
        + costs.recovery_point
        + costs.start / (mix.turns + 1)
    )
    woken = wake_share(plan)
    seconds += woken * _line(costs.wake, mix.state_mib)
    if plan.store is None:
        return seconds + woken * _line(costs.suspend, mix.state_mib)
    return seconds + _line(costs.write, written_mib(plan))


def written_mib(plan: Plan) -> float:
    return plan.mix.changed_mib if plan.costs.chunk_mib else plan.mix.state_mib


def bounds(plan: Plan) -> list[Bound]:
    """All resources, the scarcest first."""
    mix, costs, kind = plan.mix, plan.costs, plan.kind
    stored = mix.state_mib * costs.stored_per_state
    room = (kind.memory_mib - kind.reserved_mib) / (costs.awake_mib + mix.state_mib)
    woken = wake_share(plan)
    found = [
        Bound("processor", kind.cores * MAX_BUSY / mix.rate / turn_seconds(plan)),
        Bound("memory", room / awake_share(plan)),
    ]
    if plan.store is None:
        traffic = 2 * woken * stored
        found.append(
            Bound("disk traffic", kind.disk_mib_per_second * MAX_BUSY / mix.rate / traffic)
        )
        entries = (kind.memory_mib - kind.reserved_mib) / costs.asleep_mib
        found.append(Bound("entries", entries))
        found.append(Bound("disk room", kind.disk_mib / (stored * (1 - awake_share(plan)))))
    else:
        traffic = woken * stored + written_mib(plan) * costs.stored_per_state
        found.append(Bound("network", kind.network_mib_per_second * MAX_BUSY / mix.rate / traffic))
    return sorted(found, key=lambda bound: bound.sessions)


def store_requests(plan: Plan, sessions: float) -> tuple[float, float]:
    """Reads and writes per second of this many sessions."""
    turns, costs = sessions * plan.mix.rate, plan.costs
    parts = costs.chunks(written_mib(plan)) + 1 if costs.chunk_mib else 0
    reads = READS_BEFORE + wake_share(plan) * (1 + costs.chunks(plan.mix.state_mib))
    return turns * reads, turns * (WRITES_BEFORE + WRITES_AFTER + REMOVALS + parts)


def erlang_c(servers: int, load: float) -> float:
    """The share of arrivals that have to wait in a queue with this many servers."""
    below = sum(load**n / factorial(n) for n in range(servers))
    top = load**servers / factorial(servers) * servers / (servers - load)
    return top / (below + top)


def _line(line: tuple[float, float], mib: float) -> float:
    return line[0] + line[1] * mib
