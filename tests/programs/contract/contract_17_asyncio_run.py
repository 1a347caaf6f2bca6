import asyncio


async def main():
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asyncio.sleep(0.01, n)) for n in range(3)]
    return [task.result() for task in tasks]


result = asyncio.run(main())

# expect result: [0, 1, 2]
