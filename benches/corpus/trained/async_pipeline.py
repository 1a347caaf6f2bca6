import asyncio
import random
from contextlib import asynccontextmanager


class Pool:
    def __init__(self, size):
        self.semaphore = asyncio.Semaphore(size)
        self.used = 0
        self.most = 0

    @asynccontextmanager
    async def connection(self):
        async with self.semaphore:
            self.used += 1
            self.most = max(self.most, self.used)
            try:
                yield f"connection {self.used}"
            finally:
                self.used -= 1


async def fetch(pool, number):
    async with pool.connection():
        await asyncio.sleep(0)
        if number % 37 == 0:
            raise ConnectionError(f"record {number}")
        return {"id": number, "value": number * number % 101}


async def producer(queue, numbers):
    for number in numbers:
        await queue.put(number)
    await queue.put(None)


async def worker(name, queue, pool, results, failed):
    while (number := await queue.get()) is not None:
        try:
            record = await asyncio.wait_for(fetch(pool, number), timeout=5)
        except ConnectionError as error:
            failed.append(str(error))
        else:
            results.append((name, record))
    await queue.put(None)


async def ticks(limit):
    for tick in range(limit):
        await asyncio.sleep(0)
        yield tick


async def main():
    random.seed(5)
    queue, pool = asyncio.Queue(maxsize=10), Pool(3)
    results, failed = [], []
    async with asyncio.TaskGroup() as group:
        group.create_task(producer(queue, range(4500)))
        for name in "abcde":
            group.create_task(worker(name, queue, pool, results, failed))
    print(len(results), "results,", len(failed), "failures, first:", failed[0])
    print("values:", sum(record["value"] for _, record in results), "connections:", pool.most)
    batches = await asyncio.gather(*(fetch(pool, n) for n in range(30, 60)), return_exceptions=True)
    print([type(b).__name__ for b in batches if not isinstance(b, dict)], len(batches))
    print(sum([tick async for tick in ticks(300)]))
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)
    print(await asyncio.wait_for(event.wait(), 1))


asyncio.run(main())
