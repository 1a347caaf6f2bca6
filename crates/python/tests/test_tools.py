"""Host functions called by code."""

import asyncio
import dataclasses
import enum
import threading
import time
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import pytest

import belljar
from belljar import Tool, ToolError, tool


def price(symbol: str, day: int | None = None) -> float:
    """The price of a share.

    Args:
        symbol: What it is traded as,
            such as ACME.
        day: Days ago.

    Returns:
        Euros.
    """
    if symbol != "ACME":
        raise ToolError(f"there is no {symbol}")
    return 42.5 if day is None else 40.0 + day


def test_a_function_is_a_tool(runtime):
    code = """
import tools
print(tools.price("ACME"), tools.price(symbol="ACME", day=1))
try:
    tools.price("X")
except tools.ToolError as error:
    print(error.kind, error.message)
"""
    run = runtime.run(code, image="core", tools=[price])
    assert run.stdout == "42.5 41.0\ntool_error there is no X\n"
    assert [(call.name, call.ok) for call in run.outcome.tool_calls] == [
        ("price", True),
        ("price", True),
        ("price", False),
    ]


def test_schemas_come_from_signatures():
    assert Tool(price).schema == {
        "type": "object",
        "properties": {
            "symbol": {"type": "string", "description": "What it is traded as, such as ACME."},
            "day": {
                "anyOf": [{"type": "integer"}, {"type": "null"}],
                "description": "Days ago.",
                "default": None,
            },
        },
        "required": ["symbol"],
        "additionalProperties": False,
    }
    assert Tool(price).description == "The price of a share.\n\nReturns:\n    Euros."
    described = Tool(price).to_openai()["function"]
    assert described["name"] == "price"
    assert described["parameters"]["required"] == ["symbol"]
    assert Tool(price).to_anthropic()["input_schema"] == Tool(price).schema
    assert Tool(price).to_mcp()["inputSchema"] == Tool(price).schema
    assert Tool(price)("ACME") == 42.5


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


def test_annotations():
    def everything(
        a: Literal["x", 1],
        b: list[int],
        c: dict[str, float],
        d: Color,
        e: Point,
        f: Annotated[str, "told here"],
        g: np.ndarray,
        h,
        i: tuple[int, int],
        j: bool = True,
    ):
        """Takes all.

        Parameters
        ----------
        b : list of int
            Numbers.
        j
            Whether.

        Returns
        -------
        Nothing.
        """

    properties = Tool(everything).schema["properties"]
    assert properties == {
        "a": {"enum": ["x", 1]},
        "b": {"type": "array", "items": {"type": "integer"}, "description": "Numbers."},
        "c": {"type": "object", "additionalProperties": {"type": "number"}},
        "d": {"enum": ["red", "blue"]},
        "e": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "required": ["x"],
        },
        "f": {"type": "string", "description": "told here"},
        "g": {},
        "h": {},
        "i": {},
        "j": {"type": "boolean", "description": "Whether.", "default": True},
    }


def test_what_cannot_be_a_tool():
    with pytest.raises(TypeError, match="any arguments"):
        Tool(lambda *args: None, name="x")

    def positional(a, /): ...

    with pytest.raises(TypeError, match="no name to call it by"):
        Tool(positional)

    def unknown(a: "Nothing"): ...  # noqa: F821

    with pytest.raises(TypeError, match="cannot be found"):
        Tool(unknown)
    with pytest.raises(TypeError, match="list of functions"):
        belljar.run("1", tools=price)


def test_names_that_no_tool_can_have_are_refused(runtime):
    with pytest.raises(belljar.RefusedError, match="not a name"):
        runtime.run("1", image="core", tools=[Tool(price, name="class")])


def test_arguments_are_modelled(runtime):
    seen = []

    def paint(color: Color, at: Point, more: list[Point], share: float) -> Point:
        seen.append((color, at, more, share))
        return Point(at.x + 1, at.y)

    code = """
import tools
print(tools.paint(color="red", at={"x": 1}, more=[{"x": 2, "y": 3}], share=1))
try:
    tools.paint(color="green", at={"x": 1}, more=[], share=1)
except tools.ToolError as error:
    print(error.kind)
"""
    run = runtime.run(code, image="core", tools=[paint])
    assert run.stdout == "{'x': 2, 'y': 0}\ninvalid_arguments\n"
    assert seen == [(Color.RED, Point(1), [Point(2, 3)], 1.0)]
    assert type(seen[0][3]) is float


def test_pydantic_models(runtime):
    pydantic = pytest.importorskip("pydantic")

    class Item(pydantic.BaseModel):
        """Something for sale."""

        name: str
        count: int = pydantic.Field(default=1, ge=1)

    class Order(pydantic.BaseModel):
        items: list[Item]

    def order(order: Order, first: Item | None = None) -> Item:
        assert isinstance(order, Order)
        return order.items[0]

    made = Tool(order)
    assert "Item" in made.schema["$defs"]
    code = """
import tools
print(tools.order({"items": [{"name": "tea", "count": 2}]}, first={"name": "x"}))
try:
    tools.order({"items": [{"name": "tea", "count": 0}]})
except tools.ToolError as error:
    print(error.kind)
"""
    run = runtime.run(code, image="core", tools=[made])
    assert run.stdout == "{'name': 'tea', 'count': 2}\ninvalid_arguments\n"


def test_typed_values_go_both_ways(runtime):
    def head(frame: pd.DataFrame, weights: np.ndarray, key: tuple) -> tuple:
        assert isinstance(frame, pd.DataFrame)
        assert weights.dtype == np.float32
        assert key == (1, 2)
        return frame.head(1), {1: weights * 2}

    code = """
import numpy as np, pandas as pd, tools
frame, doubled = tools.head(pd.DataFrame({"a": [1, 2]}), np.ones(2, "f4"), (1, 2))
print(type(frame).__name__, len(frame), doubled[1].dtype, doubled[1].tolist())
"""
    run = runtime.run(code, image="data", tools=[head])
    assert run.error is None
    assert run.stdout == "DataFrame 1 float32 [2.0, 2.0]\n"


def test_only_what_is_said_on_purpose_crosses(runtime):
    def leak() -> None:
        raise ValueError("password: 1234")

    def forbid() -> None:
        raise ToolError("not for you", denied=True)

    def opaque() -> object:
        return object()

    code = """
import tools
for name in ("leak", "forbid", "opaque"):
    try:
        getattr(tools, name)()
    except tools.ToolError as error:
        print(error.kind, error.message)
"""
    run = runtime.run(code, image="core", tools=[leak, forbid, opaque])
    assert run.stdout == "tool_error ValueError\ndenied not for you\ntool_error TypeError\n"


def test_functions_run_elsewhere_than_guests(runtime):
    threads = []

    def where() -> None:
        threads.append(threading.current_thread().name)
        # It may use the runtime itself.
        assert runtime.run("result = 1", image="core").result == 1

    runtime.run("import tools\ntools.where()", image="core", tools=[where])
    assert threads[0].startswith("belljar-tool")


def test_calls_at_the_same_time(runtime):
    def slow(n: int) -> int:
        time.sleep(0.2)
        return n

    code = """
import asyncio, tools
print(await asyncio.gather(*(tools.slow(n) for n in range(8))))
"""
    began = time.monotonic()
    run = runtime.run(code, image="core", tools=[slow])
    assert run.stdout == "[0, 1, 2, 3, 4, 5, 6, 7]\n"
    assert time.monotonic() - began < 1.5


async def test_coroutines_run_on_the_loop_of_who_awaits(runtime):
    loops = []

    async def ask(n: int) -> int:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0.01)
        return n + 1

    run = await runtime.arun("import tools\nprint(tools.ask(1))", image="core", tools=[ask])
    assert run.stdout == "2\n"
    assert loops == [asyncio.get_running_loop()]
    async with await runtime.asession(image="core", tools=[ask]) as session:
        run = await session.arun("import tools\ntools.ask(2)")
        assert run.stdout == "3\n"
    assert loops[1:] == [asyncio.get_running_loop()]


def test_coroutines_without_a_loop(runtime):
    async def ask() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    run = runtime.run("import tools\nprint(tools.ask())", image="core", tools=[ask])
    assert run.stdout == "belljar-tools\n"


def test_a_session_s_tools_work_on_any_loop(runtime):
    async def ask() -> int:
        await asyncio.sleep(0)
        return id(asyncio.get_running_loop())

    session = runtime.session(image="core", tools=[ask])

    async def use():
        run = await session.arun("import tools\nprint(tools.ask())")
        return int(run.stdout) == id(asyncio.get_running_loop())

    assert asyncio.run(use())
    assert asyncio.run(use())
    session.close()


async def test_a_call_that_takes_too_long_is_cancelled(runtime):
    cancelled = asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    code = (
        "import tools\ntry:\n    tools.forever()\nexcept tools.ToolError as e:\n    print(e.kind)"
    )
    made = Tool(forever, timeout=0.1)
    run = await runtime.arun(code, image="core", tools=[made])
    assert run.stdout == "timeout\n"
    await asyncio.wait_for(cancelled.wait(), 5)
    run = runtime.run(code, image="core", tools=[forever], tool_limits={"timeout": 0.1})
    assert run.stdout == "timeout\n"


def test_decorators(runtime):
    @tool
    def one() -> int:
        """Gives one."""
        return 1

    @tool(name="zwei", timeout=1)
    def two() -> int:
        return 2

    class Adder:
        def __call__(self, a: int, b: int) -> int:
            return a + b

    code = "import tools\nprint(tools.one(), tools.zwei(), tools.Adder(1, 2), tools.method())"

    class Has:
        def method(self) -> str:
            return "bound"

    run = runtime.run(code, image="core", tools=[one, two, Adder(), Has().method])
    assert run.stdout == "1 2 3 bound\n"
    assert one.name == "one"
    assert one.description == "Gives one."


def test_limits(runtime):
    code = """
import tools
for _ in range(3):
    try:
        print(tools.price("ACME"))
    except tools.ToolError as error:
        print(error.kind)
"""
    run = runtime.run(code, image="core", tools=[price], tool_limits={"calls": 2})
    assert run.stdout == "42.5\n42.5\nbudget_exceeded\n"
    with pytest.raises(TypeError, match="no key"):
        runtime.run("1", tool_limits={"call": 2})


def test_a_call_at_its_limit(data_session):
    def size(value: Any) -> int:
        return 1

    for value in ("'é' * 100", "[1e16]", "np.arange(50)", "pd.DataFrame({'a': ['b']})"):
        code = f"""
import tools
try:
    print(tools.size({value}))
except tools.ToolError as error:
    print(str(error).split(" have ")[1].split()[0])
"""
        refused = data_session.run(code, tools=[size], tool_limits={"argument_bytes": 1})
        limits = {"argument_bytes": int(refused.stdout)}
        assert data_session.run(code, tools=[size], tool_limits=limits).stdout == "1\n", value
