import asyncio

print("started")
asyncio.run(asyncio.sleep(3600))
