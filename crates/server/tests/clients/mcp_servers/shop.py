"""A server of MCP, as people write them: for code that calls its tools."""

import asyncio
import os
import sys

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

server = MCPServer("shop")
STOCK = {"tea": 3.5, "milk": 1.25}


class Item(BaseModel):
    name: str
    price: float
    tags: list[str] = []


@server.tool()
def price(name: str, currency: str = "EUR") -> float:
    """The price of something.

    In the currency that is asked for.
    """
    if name not in STOCK:
        raise ToolError(f"there is no {name}")
    return STOCK[name] * (2 if currency == "XXX" else 1)


@server.tool()
def find(tag: str | None = None, limit: int = 10) -> list[Item]:
    """Items, by tag."""
    items = [Item(name=name, price=cost, tags=["drink"]) for name, cost in STOCK.items()]
    return [item for item in items if tag is None or tag in item.tags][:limit]


@server.tool()
def describe(item: Item) -> dict[str, str]:
    """Says what an item is."""
    return {"text": f"{item.name} costs {item.price}"}


@server.tool(name="say-hello", structured_output=False)
def say_hello(name: str):
    """Greets."""
    return f"Hello, {name}!"


@server.tool()
async def nap(seconds: float) -> str:
    """Sleeps."""
    await asyncio.sleep(seconds)
    return "awake"


@server.tool()
def environment() -> list[str]:
    """The names of the variables that this server sees."""
    return sorted(os.environ)


@server.tool()
def die() -> None:
    """Ends this server."""
    os._exit(3)


if __name__ == "__main__":
    if len(sys.argv) > 4 and sys.argv[1] == "--https":
        certificate, key = sys.argv[3:5]
        app = server.streamable_http_app()
        port = int(sys.argv[2])
        uvicorn.run(app, host="127.0.0.1", port=port, ssl_certfile=certificate, ssl_keyfile=key)
    elif len(sys.argv) > 2 and sys.argv[1] == "--http":
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
