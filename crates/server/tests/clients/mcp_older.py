"""One call with whichever release of the Python SDK comes first in the path; what it got, as JSON.

mcp_older.py stdio COMMAND | mcp_older.py http URL [KEY]
"""

import asyncio
import json
import logging
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client

CODE = """
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.savefig("a.png")
6 * 7
"""


async def use(read, write):
    async with ClientSession(read, write) as session:
        begun = await session.initialize()
        tools = (await session.list_tools()).tools
        result = await session.call_tool("run_python", {"code": CODE})
        return {
            "version": begun.protocolVersion,
            "tools": [tool.name for tool in tools],
            "kinds": [block.type for block in result.content],
            "texts": [block.text for block in result.content if block.type == "text"],
        }


async def main(way, to, *key):
    if way == "stdio":
        async with stdio_client(StdioServerParameters(command=to, args=["mcp"])) as streams:
            return await use(*streams)
    from mcp.client.streamable_http import streamablehttp_client

    headers = {"Authorization": f"Bearer {key[0]}"} if key else {}
    async with streamablehttp_client(to, headers=headers) as (read, write, _):
        return await use(read, write)


logging.basicConfig(level=logging.WARNING)
print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
