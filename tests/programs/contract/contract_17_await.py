import asyncio


async def double(n):
    await asyncio.sleep(0.01)
    return 2 * n


async def numbers():
    for n in range(3):
        yield n


result = await asyncio.gather(double(1), double(2))  # noqa: F704
listed = [n async for n in numbers()]  # noqa: F704
async with asyncio.timeout(1):  # noqa: F704
    print(listed, await double(3))  # noqa: F704

# expect result: [2, 4]
# expect stdout: "[0, 1, 2] 6\n"
