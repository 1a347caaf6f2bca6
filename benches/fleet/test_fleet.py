"""Compares the model with formulas: arrivals, departures, population, and queues."""

from dataclasses import replace

import pytest
import simpy
from arithmetic import awake_share, bounds, erlang_c, store_requests, turn_seconds, wake_share
from fleet import Fleet, Node, Plan, Session
from settings import MIXES, STORES, Costs, Mix, NodeKind

COSTS = Costs.read()
# Short pauses, so that little time has many turns.
BUSY = Mix("busy", 5, 60, 0.2, 0.05, 4, 1, 10, fork_share=0.02)
ROOMY = NodeKind(memory_mib=1_000_000)


def simulated(**options):
    given = {"mix": BUSY, "costs": COSTS, "sessions": 300, "suspend_after": 20, "seconds": 2000}
    return Fleet(Plan(**{**given, **options})).run()


@pytest.fixture(scope="module")
def fleet():
    return simulated(kind=ROOMY, store=STORES["s3"])


def test_costs_are_lines_through_what_was_measured():
    assert COSTS.turn == pytest.approx(0.19e-3)
    assert COSTS.wake[0] + 20 * COSTS.wake[1] == pytest.approx(0.026)
    assert COSTS.write[0] + 20 * COSTS.write[1] == pytest.approx(0.040)


def test_sessions_are_conserved(fleet):
    assert fleet.totals["came"] - fleet.totals["went"] == fleet.present
    known = {session for node in fleet.nodes for session in (*node.idle, *node.running)}
    assert len(known) <= fleet.present


def test_littles_law(fleet):
    """The population is the arrival rate times the mean stay."""
    seconds = fleet.plan.warm_up + fleet.plan.seconds
    present = fleet.present_seconds / fleet.plan.seconds
    coming = fleet.totals["came"] - fleet.plan.sessions
    mix = fleet.plan.mix
    stay = mix.turns * (mix.pause + mix.guest + 0.5)
    assert present == pytest.approx(coming / seconds * stay, rel=0.15)
    assert present == pytest.approx(fleet.plan.sessions, rel=0.15)


def test_turns_follow_from_pauses(fleet):
    present = fleet.present_seconds / fleet.plan.seconds
    found = fleet.counts["turns"] / fleet.plan.seconds
    assert found == pytest.approx(present * fleet.plan.mix.rate, rel=0.1)


def test_processor_time_is_the_sum_of_its_parts(fleet):
    turns = fleet.counts["turns"]
    assert fleet.counts["cpu"] / turns == pytest.approx(turn_seconds(fleet.plan), rel=0.05)


def test_waking_and_memory_follow_from_pauses(fleet):
    turns = fleet.counts["turns"]
    assert fleet.counts["wakes"] / turns == pytest.approx(wake_share(fleet.plan), abs=0.02)
    present = fleet.present_seconds / fleet.plan.seconds
    awake = fleet.counts["awake_seconds"] / fleet.plan.seconds
    assert awake / present == pytest.approx(awake_share(fleet.plan), rel=0.15)
    assert fleet.counts["pressed"] == fleet.counts["memory_waits"] == 0


def test_requests_to_the_store(fleet):
    in_parts = simulated(kind=ROOMY, store=STORES["express"], costs=Costs.read("by_content"))
    for found in (fleet, in_parts):
        check_requests(found)
    whole, parts = (found.counts["writes"] / found.counts["turns"] for found in (fleet, in_parts))
    # The parts of a state: one new part, and the list.
    assert parts - whole == pytest.approx(2, abs=0.1)


def check_requests(fleet):
    present = fleet.present_seconds / fleet.plan.seconds
    reads, writes = store_requests(fleet.plan, present)
    assert fleet.counts["reads"] / fleet.plan.seconds == pytest.approx(reads, rel=0.1)
    assert fleet.counts["writes"] / fleet.plan.seconds == pytest.approx(writes, rel=0.1)


def test_any_node_wakes_what_another_had():
    found = simulated(kind=ROOMY, store=STORES["express"], is_sticky=False)
    share = found.counts["wakes"] / found.counts["turns"]
    assert share == pytest.approx(wake_share(found.plan), abs=0.03)
    assert share > 0.6


def test_a_queue_is_as_long_as_erlang_says():
    """Cores alone: exponential times between arrivals and of work."""
    plan = Plan(BUSY, COSTS, 0, nodes=1, kind=NodeKind(cores=2))
    fleet = Fleet(plan)
    node, waited = fleet.nodes[0], []

    def job():
        began, seconds = fleet.env.now, fleet.exponential(1.0)
        yield from node.work(seconds)
        waited.append(fleet.env.now - began - seconds)

    def comings():
        while True:
            yield fleet.env.timeout(fleet.exponential(1 / 1.4))
            fleet.env.process(job())

    fleet.env.process(comings())
    fleet.env.run(60_000)
    chance = erlang_c(2, 1.4)
    assert chance == pytest.approx(0.5765, abs=1e-3)
    assert sum(wait > 1e-9 for wait in waited) / len(waited) == pytest.approx(chance, rel=0.05)
    assert sum(waited) / len(waited) == pytest.approx(chance / (2 - 1.4), rel=0.1)


def test_memory_is_never_more_than_there_is():
    kind = NodeKind(memory_mib=1024 + 30 * 8.5)
    fleet = Fleet(Plan(BUSY, COSTS, 300, nodes=2, kind=kind))
    assert [node.room for node in fleet.nodes] == [30, 30]
    most = []

    def look():
        while True:
            yield fleet.env.timeout(0.1)
            most.append(max(len(node.idle) + len(node.running) for node in fleet.nodes))

    fleet.env.process(look())
    fleet.run()
    # Less the entries of suspended sessions.
    assert 27 <= max(most) <= 30
    assert fleet.counts["pressed"] > 0
    for node in fleet.nodes:
        assert node.disk_mib == pytest.approx(len(node.asleep) * fleet.stored_mib)


def test_a_node_that_dies_costs_what_runs():
    stored = simulated(store=STORES["s3"], mean_life=300, repair=20)
    assert stored.counts["deaths"] > 5
    assert stored.counts["runs_lost"] > 0
    assert stored.counts["sessions_lost"] == 0
    assert stored.counts["runs_lost"] < 0.01 * stored.counts["turns"]
    # On disks of its own, all of its sessions.
    alone = simulated(mean_life=300, repair=20)
    assert alone.counts["sessions_lost"] > alone.counts["runs_lost"]


def test_a_session_is_in_memory_once():
    env_of = Fleet(Plan(BUSY, COSTS, 0, nodes=1))
    node, session = Node(env_of), Session()

    def steps():
        assert not (yield from node.admit(session))
        session.version = 1
        node.settle(session)
        assert (yield from node.admit(session))
        assert len(node.running) == 1
        assert not node.idle
        node.forget(session)
        assert not node.running

    env_of.env.run(env_of.env.process(steps()))
    assert isinstance(env_of.env, simpy.Environment)


@pytest.mark.parametrize("mix", MIXES.values(), ids=str)
def test_bounds_are_where_the_arithmetic_has_them(mix):
    plan = Plan(mix, COSTS, 0, store=STORES["s3"])
    found = {bound.resource: bound.sessions for bound in bounds(plan)}
    assert list(found.values()) == sorted(found.values())
    busy = found["processor"] * mix.rate * turn_seconds(plan)
    assert busy == pytest.approx(0.8 * plan.kind.cores)
    twice = replace(plan, kind=replace(plan.kind, cores=4))
    again = {bound.resource: bound.sessions for bound in bounds(twice)}
    assert again["processor"] == pytest.approx(2 * found["processor"])
    assert again["memory"] == found["memory"]
