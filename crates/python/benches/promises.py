"""The budgets of the Python package, measured: each figure is printed beside its budget.

    cd crates/python
    CARGO=../../.ci/cargo-for-wheel maturin build --release --features measure
    pip install --force-reinstall ../../target/wheels/belljar-*.whl
    python benches/promises.py

What is compared with Rust is measured in turns, in one process, on one runtime.
"""

import argparse
import asyncio
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
    seconds = arguments.parse_args().seconds
    with belljar.Runtime() as runtime:
        for image in ("core", "data"):
            runtime.run(CODE, image=image)
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
