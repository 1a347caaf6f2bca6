# aim = "time"
# tries = "Runs a loop of events whose tasks refuse to be cancelled."
import asyncio


async def stubborn():
    while True:
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            pass


asyncio.run(asyncio.wait_for(stubborn(), 0.1))
