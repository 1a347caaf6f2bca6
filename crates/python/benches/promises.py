"""The budgets of the Python package, measured: each figure is printed beside its budget.

    cd crates/python
    CARGO=../../.ci/cargo-for-wheel maturin build --release --features measure
    pip install --force-reinstall ../../target/wheels/belljar-*.whl
    python benches/promises.py

What is compared with Rust is measured in turns, in one process, on one runtime. A call of a server,
over loopback, is compared with one of this process in the same way: `promises.py --only remote`
needs no other build than the usual ones. BELLJAR names the command that serves.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import threading
import time

import belljar
from belljar import _belljar

CODE = "print(1)"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, default=8, help="about so long for each")
    arguments.add_argument("--only", choices=["remote"], help="measure this alone")
    asked = arguments.parse_args()
    seconds = asked.seconds
    with belljar.Runtime() as runtime:
        for image in ("core", "data"):
            runtime.run(CODE, image=image)
        remote(runtime, seconds)
        if asked.only:
            return
        one_call(runtime, seconds)
        many(runtime, seconds)
        forks(runtime, seconds)
    imports()
    drop_in(seconds)


def show(name, values, unit="ms", scale=1e3):
    values = sorted(value * scale for value in values)
    last = values[min(len(values) - 1, int(len(values) * 0.99))]
    print(
        f"{name:44} median {statistics.median(values):8.3f}  mean {statistics.fmean(values):8.3f}"
        f"  p99 {last:8.3f} {unit}  ({len(values)})",
        flush=True,
    )
    return statistics.median(values)


def one_call(runtime, seconds):
    rust, python, typed = [], [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rust += _belljar.measure_calls(runtime._core, CODE, "data", 50)
        for into, options in ((python, {"typed": False}), (typed, {})):
            for _ in range(50):
                began = time.perf_counter()
                runtime.run(CODE, image="data", **options)
                into.append(time.perf_counter() - began)
    base = show("a call from Rust, data", rust)
    show("from Python, plain result", python)
    mine = show("from Python", typed)
    print(f"{'':44} {mine - base:+.3f} ms over Rust; budget 0.1 ms")


def remote(runtime, seconds):
    """One call of a server at a time, on one connection, beyond one of this process."""
    command = [os.environ.get("BELLJAR", "belljar"), "serve", "--listen", "127.0.0.1:0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    ready = json.loads(process.stdout.readline())
    found = {"here": ([], []), "a server": ([], [])}
    with belljar.connect(ready["url"], ready["key"]) as server:
        end = time.monotonic() + seconds
        server.run(CODE, image="data")
        while time.monotonic() < end:
            for where, (times, processor) in zip((runtime, server), found.values(), strict=True):
                for _ in range(20):
                    began, used = time.perf_counter(), time.process_time()
                    where.run(CODE, image="data")
                    times.append(time.perf_counter() - began)
                    processor.append(time.process_time() - used)
    process.terminate()
    process.wait()
    here, there = (show(f"a call of {name}", times) for name, (times, _) in found.items())
    for name, (_, processor) in found.items():
        show(f"processor of this process, {name}", processor)
    print(f"{'':44} {there - here:+.3f} ms over loopback; budget 0.6 ms")


def many(runtime, seconds):
    def worker():
        for _ in range(25):
            runtime.run(CODE, image="data")

    async def gather():
        await asyncio.gather(*(runtime.arun(CODE, image="data") for _ in range(100)))

    found = {"rust threads": [], "python threads": [], "rust tasks": [], "gather": []}
    end = time.monotonic() + 2 * seconds
    while time.monotonic() < end:
        found["rust threads"].append(
            200 / _belljar.measure_threads(runtime._core, CODE, "data", 8, 25)
        )
        threads = [threading.Thread(target=worker) for _ in range(8)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found["python threads"].append(200 / (time.perf_counter() - began))
        found["rust tasks"].append(100 / _belljar.measure_tasks(runtime._core, CODE, "data", 100))
        began = time.perf_counter()
        asyncio.run(gather())
        found["gather"].append(100 / (time.perf_counter() - began))
    medians = {name: show(name, values, unit="runs/s", scale=1) for name, values in found.items()}
    for mine, theirs in (("python threads", "rust threads"), ("gather", "rust tasks")):
        share = 100 * medians[mine] / medians[theirs]
        print(f"{mine:44} {share:.0f} % of {theirs}; budget 85 %")


def forks(runtime, seconds):
    with runtime.session(image="data", init_code="import pandas as pd") as session:
        session.run("prices = pd.Series([1, 2, 3]).to_numpy()")

        def best():
            forked = [session.fork() for _ in range(8)]
            runs = [fork.run(f"result = int(prices[:{n}].sum())") for n, fork in enumerate(forked)]
            at = max(range(8), key=lambda n: runs[n].result)
            for n, fork in enumerate(forked):
                if n != at:
                    fork.close()
            return forked[at]

        async def best_at_once():
            forked = await asyncio.gather(*(session.afork() for _ in range(8)))
            runs = await asyncio.gather(
                *(fork.arun(f"result = int(prices[:{n}].sum())") for n, fork in enumerate(forked))
            )
            at = max(range(8), key=lambda n: runs[n].result)
            for n, fork in enumerate(forked):
                if n != at:
                    fork.close()
            return forked[at]

        async def in_turns():
            one, other = [], []
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                began = time.perf_counter()
                best().close()
                one.append(time.perf_counter() - began)
                began = time.perf_counter()
                (await best_at_once()).close()
                other.append(time.perf_counter() - began)
            return one, other

        one, other = asyncio.run(in_turns())
    show("best of 8 forks, one after the other", one)
    print(f"{'':44} budget 30 ms")
    show("best of 8 forks, at once", other)


def imports():
    program = "import time; b = time.perf_counter(); import belljar; print(time.perf_counter() - b)"
    times = []
    for _ in range(20):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        times.append(float(done.stdout))
    show("import belljar", times[1:])
    print(f"{'':44} budget 30 ms")


def drop_in(seconds):
    try:
        from synapsekit.agents.tools.code_interpreter import CodeInterpreterTool as Theirs
    except ImportError:
        print("SynapseKit is not installed: its tool is left out")
        return
    from belljar.compat.synapsekit import CodeInterpreterTool as Ours

    async def in_turns():
        ours, theirs = Ours(), Theirs()
        found = ([], [])
        await ours.run(CODE)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for tool, into in zip((ours, theirs), found, strict=True):
                began = time.perf_counter()
                result = await tool.run(CODE)
                into.append(time.perf_counter() - began)
                assert '"1\\n"' in result.output, result
        return found

    ours, theirs = asyncio.run(in_turns())
    mine, base = show("SynapseKit's calls, ours", ours), show("SynapseKit's own tool", theirs)
    print(f"{'':44} {base / mine:.0f} times as fast; budget 20")


if __name__ == "__main__":
    main()
