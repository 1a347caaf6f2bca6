"""The budgets of belljar.compat and belljar.agent, compared with the originals.

    python benches/compat.py

Needs `synapsekit` for the first. Calls alternate between SynapseKit's own tool and belljar's.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import belljar
from belljar.agent import abest_of
from belljar.compat.synapsekit import CodeInterpreterTool

CALLS = {
    "print": "print(6 * 7)",
    "primes": "print(sum(n * n for n in range(50) if n > 1 and all(n % d for d in range(2, n))))",
    "an error": "print('so far')\n1 / 0",
    "a file": "open('a.txt', 'w').write('data')",
    "pandas": (
        "import pandas as pd\n"
        "df = pd.DataFrame({'a': [1, 2, 3], 'b': [4, 5, 6]})\n"
        "print(df.describe())"
    ),
    "a figure": (
        "import matplotlib\n"
        "matplotlib.use('Agg')\n"
        "import matplotlib.pyplot as plt\n"
        "plt.bar(range(5), [3, 7, 2, 9, 5])\n"
    ),
}
ROUNDS = 5
WAYS = 8


async def milliseconds(call: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await call()
    return (time.perf_counter() - begun) * 1000


async def against_synapsekit() -> None:
    from synapsekit.agents.tools.code_interpreter import CodeInterpreterTool as Original

    tools = {"SynapseKit": Original(timeout=60, memory_limit_mb=4096), "belljar": None}
    tools["belljar"] = CodeInterpreterTool(timeout=60, memory_limit_mb=256)
    for code in CALLS.values():
        await tools["belljar"].run(code=code)
    print(f"{'median of ' + str(ROUNDS):12} {'SynapseKit':>12} {'belljar':>12} {'times':>8}")
    totals = dict.fromkeys(tools, 0.0)
    for name, code in CALLS.items():
        times: dict[str, list[float]] = {tool: [] for tool in tools}
        for _ in range(ROUNDS):
            for tool, used in tools.items():
                times[tool].append(await milliseconds(lambda t=used, c=code: t.run(code=c)))
        medians = {tool: statistics.median(held) for tool, held in times.items()}
        for tool, median in medians.items():
            totals[tool] += median
        print(row(name, medians))
    print(row("all", totals), "  budget: at least 20 times")


def row(name: str, times: dict[str, float]) -> str:
    theirs, ours = times["SynapseKit"], times["belljar"]
    return f"{name:12} {theirs:9.1f} ms {ours:9.2f} ms {theirs / ours:8.1f}"


async def best_of_forks() -> None:
    session = await belljar.default_runtime().asession()
    await session.arun("import pandas as pd")
    ways = [f"result = float(pd.Series([3, 4, 6, 5, {n}]).std())" for n in range(WAYS)]
    times = []

    async def choose() -> None:
        best = await abest_of(session, ways, score=lambda outcome: -outcome.result)
        best.session.close()

    for _ in range(40):
        times.append(await milliseconds(choose))
    session.close()
    median = statistics.median(times)
    print(f"best of {WAYS} forks with pandas, one line each: median {median:.1f} ms, budget: 30 ms")


async def main() -> None:
    await best_of_forks()
    await against_synapsekit()


if __name__ == "__main__":
    asyncio.run(main())
