import asyncio
import sys

sys.setrecursionlimit(10**9)


async def down():
    await down()


asyncio.run(down())
