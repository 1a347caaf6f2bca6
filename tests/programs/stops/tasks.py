"""Tasks that make tasks; the event loop never runs out."""

import asyncio


async def again():
    while True:
        await asyncio.sleep(0)


async def main():
    await asyncio.gather(*(again() for _ in range(100)))


print("started")
asyncio.run(main())
