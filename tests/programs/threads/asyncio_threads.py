import asyncio
import time
from concurrent.futures import ThreadPoolExecutor


def work(n):
    time.sleep(0.001)
    return n * n


def inner():
    return asyncio.run(asyncio.sleep(0, "own loop"))


async def main():
    print(await asyncio.to_thread(work, 3))
    print(await asyncio.gather(*(asyncio.to_thread(work, n) for n in range(4))))
    loop = asyncio.get_running_loop()
    print(await loop.run_in_executor(None, work, 5))
    with ThreadPoolExecutor() as pool:
        print(await loop.run_in_executor(pool, work, 6))
    print(await asyncio.to_thread(inner))
    try:
        await asyncio.to_thread(lambda: 1 / 0)
    except ZeroDivisionError as error:
        print(error)


asyncio.run(main())

# expect stdout: "9\n[0, 1, 4, 9]\n25\n36\nown loop\ndivision by zero\n"
# expect stderr: ""
