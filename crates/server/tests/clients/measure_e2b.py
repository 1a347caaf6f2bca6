"""What E2B's SDK for Python takes to make a sandbox, run code in it and end it, beside the budget.

    python measure_e2b.py [N] [STORE]

It starts a server as the tests do, on the same machine. STORE is a URL for `belljar serve --store`,
such as file:///tmp/store.
"""

import os
import statistics
import sys
import time

import conftest

BUDGET_MS = 15


def main():
    server = conftest.start(*(["--store", sys.argv[2]] if len(sys.argv) > 2 else []))
    os.environ.update(E2B_API_URL=server.url, E2B_SANDBOX_URL=server.url, E2B_API_KEY=server.key)
    from e2b_code_interpreter import Sandbox

    def once():
        marks = [time.perf_counter()]
        sandbox = Sandbox.create()
        marks.append(time.perf_counter())
        assert sandbox.run_code("1 + 1").text == "2"
        marks.append(time.perf_counter())
        assert sandbox.kill()
        marks.append(time.perf_counter())
        return [(after - before) * 1000 for before, after in zip(marks, marks[1:], strict=False)]

    for _ in range(20):
        once()
    parts = [once() for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 200)]
    names = ("create", "run_code", "kill")
    medians = [statistics.median(part) for part in zip(*parts, strict=True)]
    shown = ", ".join(f"{name} {ms:.1f}" for name, ms in zip(names, medians, strict=True))
    total = statistics.median(sum(part) for part in parts)
    print(f"all three {total:.1f} ms (budget {BUDGET_MS} ms): {shown}")
    server.stop()


if __name__ == "__main__":
    main()
