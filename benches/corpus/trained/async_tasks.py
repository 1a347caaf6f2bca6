import asyncio


async def worker(number, queue, results):
    while True:
        item = await queue.get()
        await asyncio.sleep(0)
        results.append((number, item * item))
        queue.task_done()


async def main():
    queue, results = asyncio.Queue(), []
    workers = [asyncio.create_task(worker(n, queue, results)) for n in range(5)]
    for item in range(2_000):
        queue.put_nowait(item)
    await queue.join()
    for task in workers:
        task.cancel()
    return sum(value for _, value in results)


print(asyncio.run(main()))
