# aim = "memory"
# tries = "Makes tasks without end, none of which runs."
import asyncio


async def wait(ballast):
    await asyncio.sleep(60)


async def main():
    held = []
    while True:
        held.append(asyncio.ensure_future(wait(bytearray(b"x" * 100_000))))


asyncio.run(main())
