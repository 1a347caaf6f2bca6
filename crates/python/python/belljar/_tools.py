"""Functions of the caller that guests can call.

A call begins on a thread of the engine, which hands it over at once: a coroutine function runs on
the event loop of whoever awaits the run, or without one on a loop of belljar's own; any other
function on a pool of threads.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _belljar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

    from ._types import AnyTool

    F = TypeVar("F", bound=Callable[..., Any])


class ToolError(Exception):
    """Raised by a tool to tell the code why it has no answer. Of any other exception the code is
    told the name of its class only. With ``denied`` the call is not allowed."""

    def __init__(self, message: str, *, denied: bool = False) -> None:
        super().__init__(message)
        self.denied = denied


class Tool:
    """A function that code in the sandbox can call: ``tools.NAME(...)`` after ``import tools``.

    The name is the function's, the description its docstring, the parameters its signature: types
    become a JSON Schema, and the ``Args`` of the docstring their descriptions. Arguments are
    checked before the function runs; one whose annotation is a pydantic model, a dataclass or an
    enum arrives as that. ``timeout`` is of one call, in seconds.
    """

    __slots__ = ("_native", "description", "function", "name", "schema", "timeout")

    function: Callable[..., Any] | None
    name: str
    description: str
    schema: dict[str, Any]
    timeout: float | None

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        from ._schema import Signature

        signature = Signature.of(function)
        self.function = function
        self.name = name or signature.name
        self.description = signature.description if description is None else description
        self.schema = dict(signature.schema() if schema is None else schema)
        self.timeout = timeout
        start = starter(function, signature.call)
        self._native = _belljar.Tool(self.name, self.description, self.schema, start, timeout)

    @classmethod
    def deferred(cls, name: str, schema: Mapping[str, Any], *, description: str = "") -> Tool:
        """A tool without a function: code that waits for it ends its run, of kind ``waiting``, and
        :meth:`Session.answer` goes on with it, later, and in another process if need be."""
        tool = cls.__new__(cls)
        tool.function = None
        tool.name, tool.description, tool.schema = name, description, dict(schema)
        tool.timeout = None
        tool._native = _belljar.Tool(name, description, tool.schema, None, None)
        return tool

    def to_openai(self) -> dict[str, Any]:
        """The tool as the chat interface of OpenAI and those like it take it."""
        return self._native.described("openai")

    def to_anthropic(self) -> dict[str, Any]:
        """The tool as the messages interface of Anthropic takes it."""
        return self._native.described("anthropic")

    def to_mcp(self) -> dict[str, Any]:
        """The tool as an MCP server lists it."""
        return self._native.described("mcp")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.function is None:
            raise TypeError(f"{self.name} is deferred and has no function")
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


@overload
def tool(function: F) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> Callable[[F], Tool]: ...
def tool(function: Any = None, **options: Any) -> Any:
    """Makes a tool of a function; with options as a decorator that is called."""
    if function is None:
        return lambda function: Tool(function, **options)
    return Tool(function, **options)


def native_tools(tools: Sequence[AnyTool]) -> list[_belljar.Tool]:
    """Tools as the engine takes them."""
    if callable(tools):
        raise TypeError("tools is a list of functions")
    return [(held if isinstance(held, Tool) else Tool(held))._native for held in tools]


def starter(
    function: Callable[..., Any], call: Callable[[dict[str, Any]], Any] | None = None
) -> Callable[[dict[str, Any], _belljar.Reply, Any], Callable[[], object]]:
    """What begins a call of a function: given the arguments, whom to answer and the event loop of
    whoever awaits the run, if one does, it returns what cancels the call."""
    import contextvars

    call = call or (lambda arguments: function(**arguments))
    is_coroutine = _is_coroutine(function)
    context = contextvars.copy_context()

    def start(
        arguments: dict[str, Any], reply: _belljar.Reply, loop: asyncio.AbstractEventLoop | None
    ) -> Callable[[], object]:
        if is_coroutine:
            import asyncio

            home = loop or _own_loop()
            coroutine = _awaited(call, arguments, reply)
            future: Future[Any] = asyncio.run_coroutine_threadsafe(coroutine, home)
            return future.cancel
        own = context.copy()
        task = _pool().submit(own.run, _called, call, arguments, reply)
        return task.cancel

    return start


def _is_coroutine(function: Any) -> bool:
    import inspect

    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)
    )


def _called(
    call: Callable[[dict[str, Any]], Any], arguments: dict[str, Any], reply: _belljar.Reply
) -> None:
    try:
        found = call(arguments)
        if hasattr(found, "__await__"):
            import asyncio

            found = asyncio.run_coroutine_threadsafe(_wrapped(found), _own_loop()).result()
        _answer(reply, found)
    except BaseException as error:
        _failed(reply, error)


async def _wrapped(awaitable: Any) -> Any:
    return await awaitable


async def _awaited(
    call: Callable[[dict[str, Any]], Coroutine[Any, Any, Any]],
    arguments: dict[str, Any],
    reply: _belljar.Reply,
) -> None:
    import asyncio

    try:
        _answer(reply, await call(arguments))
    except asyncio.CancelledError:
        reply.fail("cancelled")
        raise
    except BaseException as error:
        _failed(reply, error)


def _answer(reply: _belljar.Reply, found: Any) -> None:
    from ._schema import unmodelled

    reply.answer(unmodelled(found))


def _failed(reply: _belljar.Reply, error: BaseException) -> None:
    if isinstance(error, ToolError):
        (reply.deny if error.denied else reply.fail)(str(error))
        return
    import logging

    logging.getLogger("belljar").warning("a tool failed", exc_info=error)
    reply.fail(type(error).__name__)


_lock = threading.Lock()
_threads: ThreadPoolExecutor | None = None
_loop: asyncio.AbstractEventLoop | None = None


def _pool() -> ThreadPoolExecutor:
    global _threads
    with _lock:
        if _threads is None:
            from concurrent.futures import ThreadPoolExecutor

            _threads = ThreadPoolExecutor(max_workers=64, thread_name_prefix="belljar-tool")
        return _threads


def _own_loop() -> asyncio.AbstractEventLoop:
    """The loop for coroutines of runs that nobody awaits, on a thread of its own."""
    global _loop
    with _lock:
        if _loop is None:
            import asyncio

            _loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_loop.run_forever, name="belljar-tools", daemon=True)
            thread.start()
        return _loop


def _in_child() -> None:
    """A forked child has none of those threads."""
    global _lock, _threads, _loop
    _lock, _threads, _loop = threading.Lock(), None, None


def _register() -> None:
    import os

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_in_child)


_register()
