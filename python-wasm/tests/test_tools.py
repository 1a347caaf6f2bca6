"""The module `tools`, with a scripted host."""

import asyncio
import base64
import builtins
import datetime
import importlib
import inspect
import json
import sys

import numpy as np
import pytest

from _belljar.display import ipython as ipython
from _belljar.stand_ins import loops
from _belljar.tools import calls, tools
from conftest import _Host

SPEC = {
    "name": "price",
    "description": "The latest price.\n\nOf a share.",
    "schema": {
        "type": "object",
        "properties": {
            "days": {"type": "integer"},
            "symbol": {"type": "string", "description": "such as ACME"},
            "note": {"type": ["string", "null"]},
            "a-b": {"type": "string"},
        },
        "required": ["symbol"],
    },
}


class Answers:
    """Answers every call with its arguments, unless told otherwise."""

    def __init__(self):
        self.frames = []
        self.reply = None
        self.is_slow = False
        self.begun = {}

    def call(self, data):
        op, payload = data[:1].decode(), json.loads(data[1:])
        self.frames.append((op, payload))
        if self.reply is not None:
            return json.dumps(self.reply).encode()
        if op == "b":
            number = len(self.begun) + 1
            self.begun[number] = payload["arguments"]
            return json.dumps({"id": number}).encode()
        if op == "a" and self.is_slow:
            return b"[]"
        if op == "a":
            found = [[n, {"ok": self.begun[n]}] for n in payload["ids"]]
            return json.dumps(found).encode()
        if op == "n":
            return json.dumps({"ok": payload["prompt"].upper() or None}).encode()
        return json.dumps({"ok": payload.get("arguments")}).encode()


@pytest.fixture
def host(monkeypatch):
    answers = Answers()
    monkeypatch.setattr(_Host, "door", answers)
    calls._open.clear()
    yield answers
    calls._open.clear()


@pytest.fixture
def price(host):
    return tools.make([SPEC]).price


def test_positions_follow_the_schema_with_what_is_required_first(price):
    assert price("ACME", 3) == {"symbol": "ACME", "days": 3}
    assert price(**{"symbol": "ACME", "a-b": "x"}) == {"symbol": "ACME", "a-b": "x"}


def test_none_is_left_out_where_the_schema_does_not_allow_it(price):
    assert price("ACME", None, None) == {"symbol": "ACME", "note": None}
    assert price(None) == {"symbol": None}


def test_too_many_arguments_are_a_type_error(price):
    with pytest.raises(TypeError, match="takes 4 positional arguments but 5 were given"):
        price(1, 2, 3, 4, 5)
    with pytest.raises(TypeError, match="multiple values for argument 'symbol'"):
        price("ACME", symbol="ACME")


def test_it_has_a_signature_and_a_documentation(price):
    signature = str(inspect.signature(price))
    assert signature == "(symbol: str, days: int = None, note=None, **kwargs)"
    assert "symbol (string): such as ACME" in price.__doc__
    assert (price.__name__, price.__module__) == ("price", "tools")


def test_a_group_is_a_module_of_its_own(host):
    specs = [{**SPEC, "name": "shop.price"}, {**SPEC, "name": "shop.stock"}, SPEC]
    tools.prepare(specs)
    try:
        found = importlib.import_module("tools")
        from tools.shop import stock

        assert stock("ACME") == {"symbol": "ACME"}
        assert [payload["name"] for _, payload in host.frames] == ["shop.stock"]
        assert (stock.__name__, stock.__module__) == ("stock", "tools.shop")
        assert "shop.price: The latest price." in found.__doc__
        assert found.__all__ == ["price", "shop", "ToolError"]
        assert tools_of(found.shop) == ["price", "stock"]
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("tools.other")
    finally:
        tools.prepare([])
    assert not [name for name in sys.modules if name.partition(".")[0] == "tools"]


def tools_of(module):
    return sorted(name for name in vars(module) if not name.startswith("_"))


def test_a_schema_without_properties_takes_any_keyword(host):
    anything = tools.make([{**SPEC, "schema": {"type": "object"}}]).price
    assert str(inspect.signature(anything)) == "(**kwargs)"
    assert anything(x=1) == {"x": 1}


@pytest.mark.parametrize(
    "schema", [{}, {"properties": 7}, {"properties": {"x": True}, "required": 3}]
)
def test_odd_schemas_are_no_matter(host, schema):
    assert tools.make([{**SPEC, "schema": schema}]).price(x=1) == {"x": 1}


def _cyclic():
    value = []
    value.append(value)
    return value


def _deep():
    value = []
    for _ in range(200):
        value = [value, 1j]
    return value


@pytest.mark.parametrize("value", [_cyclic(), _deep(), float("nan"), object(), len])
def test_what_has_no_form_is_not_sent(price, host, value):
    with pytest.raises(calls.ToolError) as found:
        price(value)
    assert found.value.kind in ("invalid_arguments", "too_large")
    assert found.value.tool == "price"
    assert host.frames == []


class TypedAnswers:
    """Answers every typed call with the payload of its arguments."""

    def __init__(self):
        self.frames = []

    def call(self, data):
        self.frames.append(data)
        op, length = data[:1], data[1]
        if op == b"a":
            (number,) = json.loads(data[1:])["ids"]
            return json.dumps([[number, self.reply(self.frames[0])]]).encode()
        assert data[2 : 2 + length] == b"price"
        return json.dumps({"id": 1} if op == b"B" else self.reply(data)).encode()

    def reply(self, data):
        return {"typed": base64.b64encode(data[2 + data[1] :]).decode()}


@pytest.fixture
def typed_price(monkeypatch):
    answers = TypedAnswers()
    monkeypatch.setattr(_Host, "door", answers)
    return tools.make([{**SPEC, "typed": True}]).price, answers


VALUES = [(1, 2), 2**200, b"ab", {1, 2}, {(1,): 1.5, "$": None}, datetime.date(2024, 1, 2)]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_typed_values_stay_themselves(typed_price, value):
    price, _ = typed_price
    found = price(value)
    assert found == {"symbol": value}
    assert type(found["symbol"]) is type(value)
    assert price.begin(value).result() == found


@pytest.mark.parametrize("array", [np.arange(5), np.arange(9000.0)[::2], np.ones((90, 50)).T])
def test_typed_frames_hold_their_bytes(typed_price, array):
    price, answers = typed_price
    found = price(array)["symbol"]
    assert found.dtype == array.dtype
    assert (found == array).all()
    assert len(answers.frames[0]) > array.nbytes


@pytest.mark.parametrize("value", [_cyclic(), _deep(), object(), len, [1, {"a": object}]])
def test_typed_calls_leave_nothing_out(typed_price, value):
    price, answers = typed_price
    with pytest.raises(calls.ToolError) as found:
        price(value)
    assert found.value.kind == "invalid_arguments"
    assert answers.frames == []


def test_a_typed_call_that_is_too_large_is_not_sent(typed_price):
    price, answers = typed_price
    with pytest.raises(calls.ToolError) as found:
        price(bytes(20 << 20))
    assert found.value.kind == "too_large"
    assert answers.frames == []


def test_plain_forms_are_sent(price):
    assert price((1, {2}, b"ab")) == {"symbol": [1, [2], "YWI="]}


def test_a_failure_says_what_and_why(price, host):
    host.reply = {"kind": "denied", "message": "not yours"}
    with pytest.raises(calls.ToolError, match="price: denied: not yours") as found:
        price("ACME")
    assert (found.value.kind, found.value.message) == ("denied", "not yours")


def _loop():
    loop = asyncio.SelectorEventLoop()
    loops._no_pipe(loop)
    return loop


def test_with_a_loop_a_call_is_awaited(price, host):
    async def main():
        return await asyncio.gather(price("A"), price.begin("B"))

    loop = _loop()
    try:
        assert loop.run_until_complete(main()) == [{"symbol": "A"}, {"symbol": "B"}]
    finally:
        loop.close()
    assert [op for op, _ in host.frames] == ["b", "b", "a"]


def test_a_cancelled_call_is_given_up(price, host):
    async def main():
        price("A").cancel()
        await asyncio.sleep(0)

    loop = _loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    assert host.frames[-1] == ("k", {"id": 1})
    assert calls._open == {}


def test_calls_of_an_earlier_run_fail(price, host):
    host.is_slow = True
    loop = _loop()

    async def begin():
        return [price("A")]

    try:
        (future,) = loop.run_until_complete(begin())
        calls.forget()
        with pytest.raises(calls.ToolError, match="has ended"):
            loop.run_until_complete(future)
    finally:
        loop.close()


def test_without_a_loop_a_begun_call_has_a_result(price, host):
    begun = price.begin("A")
    assert repr(begun) == "<call 1 of price, for its answer write .result()>"
    assert begun.result() == begun.result() == {"symbol": "A"}
    assert [op for op, _ in host.frames] == ["b", "a"]


def test_the_module_is_there_for_its_run_only():
    tools.prepare([SPEC])
    assert sys.modules["tools"] is sys.modules["host"].tools
    tools.prepare(None)
    assert "tools" not in sys.modules
    assert "host.tools" not in sys.modules


def test_a_module_that_the_code_put_there_stays(monkeypatch):
    tools.prepare([SPEC])
    monkeypatch.setitem(sys.modules, "tools", sys)
    tools.prepare(None)
    assert sys.modules["tools"] is sys


def test_input_asks_the_host_while_it_answers(host, capsys):
    usual = builtins.input
    tools.prepare_input(True)
    try:
        assert input("who? ") == "WHO? "
        with pytest.raises(EOFError):
            input()
    finally:
        tools.prepare_input(False)
    assert builtins.input is usual
    assert capsys.readouterr().out == "who? "


def test_in_a_notebook_whoever_is_asked_shows_the_prompt(host, capsys, monkeypatch):
    monkeypatch.setattr(ipython.STATE, "shell", object())
    tools.prepare_input(True)
    try:
        assert input("who? ") == "WHO? "
    finally:
        tools.prepare_input(False)
    assert capsys.readouterr().out == ""
