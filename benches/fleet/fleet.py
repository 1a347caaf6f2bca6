"""Simulates a fleet: sessions that come, think, run, sleep and go, on nodes that die.

Every quantity in the results is counted as it happens, so that `test_fleet.py` can compare it with
formulas.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Any

import simpy
from settings import Costs, Mix, NodeKind, Store

# Store requests around a run: a session's record is read and acquired before it; its state is
# written and its record released after the answer. Removing the old state delays nothing.
READS_BEFORE, WRITES_BEFORE, WRITES_AFTER, REMOVALS = 1, 1, 2, 1


@dataclass
class Plan:
    """One simulation."""

    mix: Mix
    costs: Costs
    sessions: int
    nodes: int = 3
    kind: NodeKind = field(default_factory=NodeKind)
    # None: each node has its own sessions, on its own disk.
    store: Store | None = None
    # Whether requests are routed to the node that had the session last.
    is_sticky: bool = True
    suspend_after: float = 300
    # Whether all nodes are processes on the same cores.
    is_one_machine: bool = False
    # The time until a disk has stored data while others write, too.
    flush: float = 0.0
    lease: float = 5
    mean_life: float | None = None
    repair: float = 120
    warm_up: float = 350
    seconds: float = 400
    seed: int = 1


class Session:
    """A session; `home` is the node with its newest state in memory, or on its disk."""

    __slots__ = ("free_at", "home", "version")

    def __init__(self) -> None:
        self.home: Node | None = None
        self.version = 0
        # When another node may take it over, after its node has died.
        self.free_at = 0.0


class Node:
    """Cores to wait for, and memory in which the longest idle sessions make room."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.env = fleet.env
        self.kind = fleet.plan.kind
        self.cores = fleet.cores or simpy.Resource(self.env, self.kind.cores)
        self.disk = simpy.Resource(self.env, 1)
        self.is_alive = True
        self.lives = 0
        self.awake_mib = fleet.plan.costs.awake_mib + fleet.plan.mix.state_mib
        # Idle sessions by the time of their last run, with the local version.
        self.idle: OrderedDict[Session, tuple[int, float]] = OrderedDict()
        self.running: set[Session] = set()
        self.asleep: set[Session] = set()
        self.has_room = self.env.event()
        self.disk_mib = 0.0

    @property
    def room(self) -> int:
        """The number of sessions that fit into memory, including entries of suspended ones."""
        entries = len(self.asleep) * self.fleet.plan.costs.asleep_mib
        free = self.kind.memory_mib - self.kind.reserved_mib - entries
        return int(free / self.awake_mib)

    def work(self, seconds: float) -> Any:
        """Takes a core for this long."""
        with self.cores.request() as core:
            yield core
            yield self.env.timeout(seconds)
        self.fleet.count("cpu", seconds)

    def admit(self, session: Session) -> Any:
        """Brings the session into memory, active and running. Returns whether its newest state was
        local.
        """
        version, _ = self.idle.pop(session, (None, 0.0))
        while len(self.running) + len(self.idle) >= self.room:
            if self.idle:
                self.fleet.count("pressed", 1)
                yield from self.put_away(next(iter(self.idle)))
            else:
                self.fleet.count("memory_waits", 1)
                yield self.has_room
        self.running.add(session)
        return version == session.version

    def settle(self, session: Session) -> None:
        """The session is idle from now on."""
        self.running.discard(session)
        self.idle[session] = (session.version, self.env.now)
        self.tell()

    def forget(self, session: Session) -> None:
        self.running.discard(session)
        self.idle.pop(session, None)
        if session in self.asleep:
            self.asleep.discard(session)
            self.disk_mib -= self.fleet.stored_mib
        self.tell()

    def tell(self) -> None:
        self.has_room.succeed()
        self.has_room = self.env.event()

    def put_away(self, session: Session) -> Any:
        """Suspends an idle session. With a store its state is already stored."""
        del self.idle[session]
        if self.fleet.plan.store is None:
            self.asleep.add(session)
            self.disk_mib += self.fleet.stored_mib
            yield from self.work(self.fleet.scaled(self.fleet.plan.costs.suspend))
            yield from self.use_disk()
            yield self.env.timeout(self.fleet.plan.flush)
        self.fleet.count("suspended", 1)

    def use_disk(self) -> Any:
        seconds = self.fleet.stored_mib / self.kind.disk_mib_per_second
        with self.disk.request() as turn:
            yield turn
            yield self.env.timeout(seconds)
        self.fleet.count("disk", seconds)

    def sweep(self) -> Any:
        """Suspends sessions that are idle for long."""
        limit = self.fleet.plan.suspend_after
        while True:
            yield self.env.timeout(limit / 20)
            while self.idle:
                session, (_, since) = next(iter(self.idle.items()))
                if self.env.now - since < limit:
                    break
                yield from self.put_away(session)

    def die_now_and_then(self, mean_life: float) -> Any:
        plan = self.fleet.plan
        while True:
            yield self.env.timeout(self.fleet.random.expovariate(1 / mean_life))
            self.is_alive, self.lives = False, self.lives + 1
            self.fleet.count("deaths", 1)
            for session in [*self.idle, *self.running, *self.asleep]:
                if session.home is self:
                    session.home = None
                    # Only a session that is held has to be waited for.
                    session.free_at = self.env.now + plan.lease * (session in self.running)
                    if plan.store is None:
                        self.fleet.count("sessions_lost", 1)
            self.idle.clear()
            self.running.clear()
            self.asleep.clear()
            self.disk_mib = 0.0
            self.tell()
            yield self.env.timeout(plan.repair)
            self.is_alive = True


class Fleet:
    """The simulation."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.env = simpy.Environment()
        self.random = random.Random(plan.seed)
        self.counts: Counter[str] = Counter()
        self.waits: list[float] = []
        self.totals: Counter[str] = Counter()
        self.present = 0
        self.present_seconds = 0.0
        self._present_since = 0.0
        self.stays: list[float] = []
        self.stored_mib = plan.mix.state_mib * plan.costs.stored_per_state
        cores = simpy.Resource(self.env, plan.kind.cores)
        self.cores = cores if plan.is_one_machine else None
        self.nodes = [Node(self) for _ in range(plan.nodes)]

    def run(self) -> Fleet:
        plan = self.plan
        for node in self.nodes:
            self.env.process(node.sweep())
            if plan.mean_life is not None:
                self.env.process(node.die_now_and_then(plan.mean_life))
        for _ in range(plan.sessions):
            self.env.process(self.live(is_new=False))
        self.env.process(self.sample())
        self.env.process(self.arrive())
        self.env.run(plan.warm_up)
        self._move(0)
        self.counts.clear()
        self.waits.clear()
        self.stays.clear()
        self.present_seconds = 0.0
        self.env.run(plan.warm_up + plan.seconds)
        self._move(0)
        return self

    def count(self, what: str, amount: float) -> None:
        self.counts[what] += amount

    def scaled(self, line: tuple[float, float], mib: float | None = None) -> float:
        return line[0] + line[1] * (self.plan.mix.state_mib if mib is None else mib)

    def exponential(self, mean: float) -> float:
        return self.random.expovariate(1 / mean) if mean else 0.0

    def arrive(self) -> Any:
        mix = self.plan.mix
        # As many as go, forks included.
        rate = self.plan.sessions / mix.pause * (1 / mix.turns - mix.fork_share)
        while rate > 0:
            yield self.env.timeout(self.exponential(1 / rate))
            self.env.process(self.live(is_new=True))

    def live(self, is_new: bool) -> Any:
        mix = self.plan.mix
        session = Session()
        came = self.env.now
        self._move(1)
        self.totals["came"] += 1
        away_share = mix.away_share
        if is_new:
            yield from self.turn(session, self.plan.costs.start)
        else:
            # In the middle of its life, which is memoryless: suspended, and paused.
            session.version = 1
            away_share = mix.away_found
        while True:
            is_away = self.random.random() < away_share
            away_share = mix.away_share
            yield self.env.timeout(self.exponential(mix.away if is_away else mix.think))
            if self.random.random() < mix.fork_share:
                self.count("forks", 1)
                self.env.process(self.live(is_new=True))
            yield from self.turn(session, 0.0)
            if self.random.random() < 1 / mix.turns:
                break
        for node in self.nodes:
            node.forget(session)
        self._move(-1)
        self.totals["went"] += 1
        self.stays.append(self.env.now - came)

    def turn(self, session: Session, start: float) -> Any:
        """One run, from the request to the answer, and its follow-up."""
        plan, costs, began = self.plan, self.plan.costs, self.env.now
        node = yield from self.route(session)
        life = node.lives
        if plan.store is not None:
            if session.free_at > self.env.now:
                yield self.env.timeout(session.free_at - self.env.now)
            yield from self.ask(READS_BEFORE, WRITES_BEFORE)
        is_here = yield from node.admit(session)
        if not is_here and session.version > 0:
            yield from self.wake(session, node)
        guest = self.exponential(plan.mix.guest)
        yield from node.work(costs.request + costs.turn + start + guest)
        if node.lives != life:
            # Its node died during the run: the run is lost, and reported.
            self.count("runs_lost", 1)
            node.running.discard(session)
            node.tell()
            return
        session.version += 1
        session.home = node
        self.count("turns", 1)
        self.count("guest", guest)
        self.waits.append(self.env.now - began - guest)
        yield from self.keep(node)
        if node.lives == life:
            node.settle(session)
        else:
            # Answered, but not stored.
            self.count("states_lost", 1)

    def sample(self) -> Any:
        """Samples memory once per second."""
        while True:
            yield self.env.timeout(1)
            for node in self.nodes:
                awake = len(node.idle) + len(node.running)
                self.count("awake_seconds", awake)
                self.count("room_seconds", node.room)

    def route(self, session: Session) -> Any:
        while True:
            home = session.home
            if (
                home is not None
                and home.is_alive
                and (self.plan.is_sticky or self.plan.store is None)
            ):
                return home
            alive = [node for node in self.nodes if node.is_alive]
            if alive:
                return self.random.choice(alive)
            yield self.env.timeout(1)

    def wake(self, session: Session, node: Node) -> Any:
        self.count("wakes", 1)
        if self.plan.store is not None:
            # Its parts come all at once.
            self.count("reads", self.plan.costs.chunks(self.plan.mix.state_mib))
            yield from self.ask(1, 0, self.stored_mib)
        elif session in node.asleep:
            node.asleep.discard(session)
            node.disk_mib -= self.stored_mib
            yield from node.use_disk()
        yield from node.work(self.scaled(self.plan.costs.wake))

    def keep(self, node: Node) -> Any:
        """Stores the state of a run, after its answer."""
        costs, mix = self.plan.costs, self.plan.mix
        yield from node.work(costs.recovery_point)
        if self.plan.store is not None:
            mib = mix.changed_mib if costs.chunk_mib else mix.state_mib
            yield from node.work(self.scaled(costs.write, mib))
            yield from self.ask(0, WRITES_AFTER, mib * costs.stored_per_state)
            # The new parts, and a list of all.
            parts = costs.chunks(mib) + 1 if costs.chunk_mib else 0
            self.count("writes", REMOVALS + parts)

    def ask(self, reads: int, writes: int, mib: float = 0.0) -> Any:
        store = self.plan.store
        assert store is not None
        self.count("reads", reads)
        self.count("writes", writes)
        self.count("network_mib", mib)
        seconds = mib / store.mib_per_second
        for _ in range(reads + writes):
            seconds += self.random.uniform(*store.latency)
        yield self.env.timeout(seconds)

    def _move(self, by: int) -> None:
        self.present_seconds += self.present * (self.env.now - self._present_since)
        self._present_since = self.env.now
        self.present += by
