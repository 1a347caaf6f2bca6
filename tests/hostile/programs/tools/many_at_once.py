# aim = "tools"
# tries = "Calls a thousand times together, without waiting."
# tools = true
import asyncio

import tools


async def call(i):
    answer = tools.lookup(key=str(i))
    return await answer if hasattr(answer, "__await__") else answer


async def main():
    return len(await asyncio.gather(*(call(i) for i in range(1000))))


print(asyncio.run(main()))
