"""Models: functions from messages to text, and the two most common clients."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

Messages = list[dict[str, str]]
Chat = Callable[[Messages], "Awaitable[str] | str"]

# Characters per token, for models that do not report their usage. Low for English and code, so that
# a limit is reached early rather than late.
CHARACTERS_PER_TOKEN = 3


class Reply(str):
    """A model's reply, and the number of tokens used, messages included."""

    tokens: int | None

    def __new__(cls, text: str, tokens: int | None = None) -> Reply:
        reply = super().__new__(cls, text)
        reply.tokens = tokens
        return reply

    def cost(self, messages: Messages) -> int:
        """The number of tokens, estimated if the model did not report it."""
        if self.tokens is not None:
            return self.tokens
        characters = len(self) + sum(len(message["content"]) for message in messages)
        return characters // CHARACTERS_PER_TOKEN + 1


async def reply_of(chat: Chat, messages: Messages) -> Reply:
    """Returns the reply of `chat`, which may be a coroutine function or a plain one."""
    answer = chat(messages)
    if inspect.isawaitable(answer):
        answer = await answer
    return answer if isinstance(answer, Reply) else Reply(answer)


async def pieces_of(chat: Chat, messages: Messages) -> AsyncGenerator[str, None]:
    """Yields the parts of a reply as they come, and then the `Reply`.

    A chat with a method `stream` is asked to stream; from others the reply comes as one part.
    """
    stream = getattr(chat, "stream", None)
    if stream is None:
        yield await reply_of(chat, messages)
        return
    written = []
    pieces = stream(messages)
    try:
        async for piece in pieces:
            yield piece
            if isinstance(piece, Reply):
                return
            written.append(piece)
        yield Reply("".join(written))
    finally:
        if hasattr(pieces, "aclose"):
            await pieces.aclose()


class OpenAIChat:
    """A chat function for a client of the package `openai`, or of a compatible one.

    The default client is `openai.AsyncOpenAI()`, with key and address from the environment.
    `options` are added to each request, such as `temperature=0`.
    """

    def __init__(self, client: Any = None, *, model: str = "gpt-4o-mini", **options: Any) -> None:
        self._client = client
        self.model = model
        self.options = options

    @property
    def client(self) -> Any:
        if self._client is None:
            import openai

            self._client = openai.AsyncOpenAI()
        return self._client

    async def __call__(self, messages: Messages) -> Reply:
        answer = await _call(
            self.client.chat.completions.create,
            model=self.model,
            messages=messages,
            **self.options,
        )
        usage = answer.usage
        return Reply(answer.choices[0].message.content or "", usage.total_tokens if usage else None)

    async def stream(self, messages: Messages) -> AsyncIterator[str]:
        if not _is_async(self.client):
            yield await self(messages)
            return
        tokens, written = None, []
        chunks = await self.client.chat.completions.create(
            model=self.model,
            messages=messages,
            stream=True,
            stream_options={"include_usage": True},
            **self.options,
        )
        async for chunk in chunks:
            if chunk.usage:
                tokens = chunk.usage.total_tokens
            if chunk.choices and chunk.choices[0].delta.content:
                written.append(chunk.choices[0].delta.content)
                yield written[-1]
        yield Reply("".join(written), tokens)


class AnthropicChat:
    """A chat function for a client of the package `anthropic`.

    The default client is `anthropic.AsyncAnthropic()`, with key and address from the environment.
    `options` are added to each request.
    """

    def __init__(
        self,
        client: Any = None,
        *,
        model: str = "claude-sonnet-5-5",
        max_tokens: int = 4096,
        **options: Any,
    ) -> None:
        self._client = client
        self.model = model
        self.options = {"max_tokens": max_tokens, **options}

    @property
    def client(self) -> Any:
        if self._client is None:
            import anthropic

            self._client = anthropic.AsyncAnthropic()
        return self._client

    async def __call__(self, messages: Messages) -> Reply:
        return self._reply(await _call(self.client.messages.create, **self._request(messages)))

    async def stream(self, messages: Messages) -> AsyncIterator[str]:
        if not _is_async(self.client):
            yield await self(messages)
            return
        async with self.client.messages.stream(**self._request(messages)) as stream:
            async for piece in stream.text_stream:
                yield piece
            yield self._reply(await stream.get_final_message())

    def _request(self, messages: Messages) -> dict[str, Any]:
        system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
        return {
            "model": self.model,
            "messages": [message for message in messages if message["role"] != "system"],
            **({"system": system} if system else {}),
            **self.options,
        }

    @staticmethod
    def _reply(message: Any) -> Reply:
        text = "".join(block.text for block in message.content if block.type == "text")
        return Reply(text, message.usage.input_tokens + message.usage.output_tokens)


def default_chat(model: str, **options: Any) -> OpenAIChat | AnthropicChat:
    """Returns the client for a model by name: Anthropic's for Claude, otherwise OpenAI's."""
    if model.startswith(("claude", "anthropic/")):
        return AnthropicChat(model=model.removeprefix("anthropic/"), **options)
    return OpenAIChat(model=model.removeprefix("openai/"), **options)


def _is_async(client: Any) -> bool:
    return type(client).__name__.startswith("Async")


async def _call(function: Callable[..., Any], **request: Any) -> Any:
    """Calls a client's method, in a thread if the client blocks."""
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        return await function(**request)
    answer = await asyncio.to_thread(function, **request)
    return await answer if inspect.isawaitable(answer) else answer
