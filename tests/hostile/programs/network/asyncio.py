# aim = "contact"
# tries = "Opens a stream by asyncio."
import asyncio


async def main():
    reader, writer = await asyncio.open_connection("127.0.0.1", int("@PORT@"))
    writer.write(b"hello")
    await writer.drain()


asyncio.run(main())
