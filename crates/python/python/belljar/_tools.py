"""Functions of the caller that guests can call.

A call starts on a thread of the engine, which hands it over at once. Coroutine functions run on the
event loop of the task that awaits the run, or on a loop of belljar's own. Other functions run in a
thread pool.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _belljar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

    F = TypeVar("F", bound=Callable[..., Any])


class ToolError(Exception):
    """Raised by a tool to send an error message to the code. For other exceptions, the code only
    sees the class name. With ``denied`` the call was not allowed.
    """

    def __init__(self, message: str, *, denied: bool = False) -> None:
        super().__init__(message)
        self.denied = denied


class Tool:
    """A function that code in the sandbox can call: ``tools.NAME(...)`` after ``import tools``.

    The name comes from the function, the description from its docstring, the parameters from its
    signature: types become a JSON Schema, and the ``Args`` of the docstring their descriptions.
    Arguments are validated before the function runs, and converted if the annotation is a pydantic
    model, a dataclass or an enum. ``timeout`` limits a call, in seconds.
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
        """Defines a tool without a function. A run that waits for it ends with the kind
        ``waiting``; :meth:`Session.answer` resumes it later, in any process.
        """
        tool = cls.__new__(cls)
        tool.function = None
        tool.name, tool.description, tool.schema = name, description, dict(schema)
        tool.timeout = None
        tool._native = _belljar.Tool(name, description, tool.schema, None, None)
        return tool

    def to_openai(self) -> dict[str, Any]:
        """Returns the definition for OpenAI's chat API and compatible ones."""
        return self._native.described("openai")

    def to_anthropic(self) -> dict[str, Any]:
        """Returns the definition for Anthropic's messages API."""
        return self._native.described("anthropic")

    def to_mcp(self) -> dict[str, Any]:
        """Returns the definition for MCP servers."""
        return self._native.described("mcp")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.function is None:
            raise TypeError(f"{self.name} is deferred and has no function")
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


if TYPE_CHECKING:
    # What is taken as a tool.
    AnyTool = Tool | Callable[..., Any]


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
    """Makes a tool of a function. With options, returns a decorator."""
    if function is None:
        return lambda function: Tool(function, **options)
    return Tool(function, **options)


def native_tools(tools: Sequence[AnyTool]) -> list[_belljar.Tool]:
    """Converts tools for the engine."""
    if callable(tools):
        raise TypeError("tools is a list of functions")
    return [(held if isinstance(held, Tool) else Tool(held))._native for held in tools]


def starter(
    function: Callable[..., Any], call: Callable[[dict[str, Any]], Any] | None = None
) -> Callable[[dict[str, Any], _belljar.Reply, Any], Callable[[], object]]:
    """Returns a function that starts a call: it takes the arguments, the receiver of the answer,
    and the event loop that awaits the run (if any), and returns a function that cancels the call.
    """
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
    """The event loop for coroutines of runs that are not awaited, on its own thread."""
    global _loop
    with _lock:
        if _loop is None:
            import asyncio

            _loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_loop.run_forever, name="belljar-tools", daemon=True)
            thread.start()
        return _loop


def _in_child() -> None:
    """A forked child has no such thread."""
    global _lock, _threads, _loop
    _lock, _threads, _loop = threading.Lock(), None, None


def _register() -> None:
    import os

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_in_child)


_register()
