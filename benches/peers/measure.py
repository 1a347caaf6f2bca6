"""Measures one peer, in an environment that has it: python measure.py PEER. Prints one JSON object.

With PEERS_WARM it only runs something once, so that later processes find what it has cached. A
figure without a value is null, and `notes` says why.
"""

import importlib
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path

from drivers import PEERS

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
COMPUTED = ("fibonacci", "nested_loops", "json_text")
PACKAGES = "json re sqlite3 numpy pandas matplotlib scipy sklearn".split()
# The code of ten turns, as an agent writes it.
TURNS = [
    "import json",
    "rows = [{'city': 'Oslo', 'days': 3, 'rate': 90.0}, {'city': 'Bern', 'days': 2, 'rate': 75.5}]",
    "def cost(row):\n    return row['days'] * row['rate']",
    "costs = {row['city']: cost(row) for row in rows}",
    "total = sum(costs.values())",
    "dearest = max(rows, key=cost)['city']",
    "average = round(total / len(rows), 1)",
    "text = json.dumps(costs, sort_keys=True)",
    "parsed = json.loads(text)",
    "print(dearest, total, average, len(parsed))",
]
THREADS = 4
SECONDS = float(os.environ.get("PEERS_SECONDS", "3"))


def timed(function, most=200):
    """The median in milliseconds of the calls within SECONDS: three to `most`."""
    times, end = [], time.perf_counter() + SECONDS
    while len(times) < 3 or (len(times) < most and time.perf_counter() < end):
        started = time.perf_counter()
        function()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def expect(printed, wanted):
    if printed.strip() != wanted:
        raise RuntimeError(f"printed {printed[:200]!r} in place of {wanted!r}")


def start(peer):
    return timed(lambda: expect(peer.fresh("print(6 * 7)"), "42"))


def turn(peer):
    session = peer.session()
    session.run("x = 1")
    figure = timed(lambda: session.run("x = x + 1"))
    if int(session.run("print(x)")) < 4:
        raise RuntimeError("the session does not keep its state")
    closed(session)
    return figure


def turns(peer):
    """Ten turns in a new session."""

    def once():
        session = peer.session()
        printed = [session.run(code) for code in TURNS]
        expect(printed[-1], "Oslo 421.0 210.5 2")
        closed(session)

    return timed(once)


def fork(peer):
    session = peer.session()
    if not hasattr(session, "fork"):
        raise NotImplementedError("no fork")
    session.run("x = [1]")

    def once():
        other = session.fork()
        expect(other.run("x.append(2)\nprint(x)"), "[1, 2]")
        closed(other)

    figure = timed(once, most=30)
    expect(session.run("print(x)"), "[1]")
    closed(session)
    return figure


def memory(peer, sessions=8):
    """Memory (PSS, MiB) of this process and its children for each further idle session."""
    held = [peer.session()]
    if hasattr(held[0], "rests"):
        raise NotImplementedError(f"a session rests {held[0].rests}")
    expect(held[0].run("x = 1\nprint(x)"), "1")
    before = proportional()
    for _ in range(sessions):
        held.append(peer.session())
        held[-1].run("x = 1")
    figure = (proportional() - before) / sessions / 1024
    for session in held:
        closed(session)
    return figure


def proportional():
    """The PSS of this process and all below it, in KiB."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    tree = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    total = 0
    for pid in tree:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def throughput(peer):
    """Fresh sandboxes a second, from several threads."""
    done, failures, end = [], [], time.perf_counter() + SECONDS

    def work():
        try:
            while time.perf_counter() < end:
                expect(peer.fresh("print(6 * 7)"), "42")
                done.append(1)
        except Exception as error:
            failures.append(error)

    count = getattr(peer, "threads", THREADS)
    threads = [threading.Thread(target=work) for _ in range(count)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return len(done) / (time.perf_counter() - started)


def compute(name):
    code = (PROGRAMS / f"{name}.py").read_text()

    def measured(peer):
        session = peer.session()
        times = []
        while len(times) < 3 and sum(times) < 10_000:
            started = time.perf_counter()
            if not session.run(code).strip():
                raise RuntimeError("printed nothing")
            times.append((time.perf_counter() - started) * 1000)
        closed(session)
        return min(times)

    return measured


def packages(peer):
    """Those that code can import."""
    run = getattr(peer, "packages", peer.fresh)
    found = []
    for name in PACKAGES:
        try:
            expect(run(f"import {name}\nprint(1)"), "1")
            found.append(name)
        except Exception:
            pass
    return found


def closed(session):
    if hasattr(session, "close"):
        session.close()


def measured(peer, result):
    """Adds all figures of a peer."""
    result["version"], result["isolation"] = peer.version, peer.isolation
    figures = [start, turn, turns, fork, memory, throughput, packages]
    named = [(figure.__name__, figure) for figure in figures]
    for figure, function in named + [(program, compute(program)) for program in COMPUTED]:
        try:
            result[figure] = function(peer)
        except Exception as error:
            result[figure] = None
            result["notes"][figure] = f"{type(error).__name__}: {error}"[:300]
    print(json.dumps(result), flush=True)


def main(name):
    kind = PEERS[name]
    started = time.perf_counter()
    if hasattr(kind, "package"):
        importlib.import_module(kind.package)
    imported = time.perf_counter()
    peer = kind()
    try:
        expect(peer.fresh("print(6 * 7)"), "42")
        ended = time.perf_counter()
        first, cold = (ended - started) * 1000, (ended - imported) * 1000
        if not os.environ.get("PEERS_WARM"):
            measured(peer, {"peer": name, "notes": {}, "first": first, "cold": cold})
    finally:
        # A server ends with this process.
        if hasattr(peer, "close"):
            peer.close()
    # Some peers leave threads that wait.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
