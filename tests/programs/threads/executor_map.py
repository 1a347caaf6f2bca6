import time
from concurrent.futures import (
    FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait,
)


def square(x):
    if x == 3:
        raise ValueError(f"not {x}")
    time.sleep(0.001)
    return x * x


with ThreadPoolExecutor(max_workers=4) as pool:
    print(list(pool.map(square, [1, 2, 4])))
    futures = {pool.submit(square, x): x for x in range(5)}
    for future in as_completed(futures):
        try:
            print(futures[future], future.result())
        except ValueError as error:
            print(futures[future], "failed:", error)
    done, rest = wait(futures, return_when=FIRST_COMPLETED)
    print(len(rest) + len(done), type(list(futures)[3].exception()).__name__)
    seen = []
    future = pool.submit(pow, 2, exp=10)
    future.add_done_callback(lambda f: seen.append(f.result()))
    print(future.done(), seen)
    outer = pool.submit(lambda: pool.submit(square, 9).result() + 1)
    print(outer.result())
try:
    pool.submit(square, 1)
except RuntimeError as error:
    print(error)

# expect stdout: "[1, 4, 16]\n0 0\n1 1\n2 4\n3 failed: not 3\n4 16\n5 ValueError\nTrue [1024]\n82\ncannot schedule new futures after shutdown\n"
# expect stderr: ""
