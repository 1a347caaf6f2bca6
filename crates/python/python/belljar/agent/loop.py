"""The agent loop: task, code, run, result, repeated until there is an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import belljar

from .._options import flat
from ..report import describe
from .best import Score, abest_of
from .best import score as default_score
from .code import extract_code, without_code
from .events import (
    ActionEvent,
    ErrorEvent,
    FinalAnswerEvent,
    Memory,
    ObservationEvent,
    Step,
    StepEvent,
    ThoughtEvent,
    TokenEvent,
)
from .models import Chat, Messages, Reply, default_chat, pieces_of, reply_of
from .prompt import NO_MORE_CODE, SYSTEM_PROMPT, observation_message, with_what_is_there

_TOOL = "python"


@dataclass(frozen=True)
class Limits:
    """Limits for one task."""

    tries: int = 8
    """Pieces of code that are run. After the last of them the model may still answer."""
    seconds: float | None = None
    """Time for everything, the model's included."""
    tokens: int | None = None
    """Tokens of all requests and answers; where a model does not say, they are estimated."""


@dataclass(frozen=True)
class Result:
    """How a task ended."""

    answer: str | None
    error: str | None
    steps: tuple[Step, ...] = field(repr=False)
    tokens: int = 0
    seconds: float = 0.0

    @property
    def success(self) -> bool:
        return self.answer is not None

    def __str__(self) -> str:
        return self.error or "" if self.answer is None else self.answer


class _StopTaskError(Exception):
    """A limit was reached; the text names it."""


class Agent:
    """A model with a session to compute in.

    The conversation and the session continue from task to task; `reset` starts both from scratch.
    """

    def __init__(
        self,
        chat: Chat | str,
        *,
        runtime: belljar.Runtime | None = None,
        session: belljar.Session | None = None,
        system_prompt: str = SYSTEM_PROMPT,
        limits: Limits | None = None,
        best_of: int = 1,
        score: Score = default_score,
        rewind_failed: bool = False,
        stream: bool = True,
        run_options: dict[str, Any] | None = None,
        run_limits: belljar.Limits | None = None,
        **session_options: Any,
    ) -> None:
        """
        Args:
            chat: the model: its name, as for `default_chat`; or `async def chat(messages) -> str`,
                or a blocking function. With a method `stream` (as in `OpenAIChat` and
                `AnthropicChat`), tokens are reported as they come.
            session: a session to work in, which stays open; by default the agent starts its own.
            best_of: number of replies requested from the model at each step. Their code runs on
                forks of the session, all at once, and the one with the highest `score` is kept.
            rewind_failed: whether to undo the changes of failed code. By default they are kept.
            run_options: options for each run, such as `timeout`.
            run_limits: limits of all runs in the agent's own session: its option `limits`.
            session_options: options for the agent's own session, such as `image`, `files`.
        """
        if best_of < 1:
            raise ValueError("best_of must be at least 1")
        self.limits = limits or Limits()
        self.memory = Memory()
        self.session = session
        self._owned = session is None
        self._chat = default_chat(chat) if isinstance(chat, str) else chat
        self._runtime = runtime
        self._session_options = dict(flat("Agent", {**session_options, "limits": run_limits}))
        self._run_options = dict(flat("run_options", run_options or {}))
        # Unknown for a session of the caller.
        self._usual_timeout = self._session_options.get("timeout", 5.0 if session is None else None)
        self._best_of = best_of
        self._score = score
        self._rewind_failed = rewind_failed
        self._stream = stream and best_of == 1
        files, tools = session_options.get("files") or {}, session_options.get("tools") or []
        self._system_prompt = with_what_is_there(system_prompt, files, tools)
        self._messages: Messages = [{"role": "system", "content": self._system_prompt}]
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, task: str, *, on_event: Callable[[StepEvent], object] | None = None) -> Result:
        """Works on a task until it ends. `on_event` is called with every step."""
        if _in_a_loop():
            raise RuntimeError("there is an event loop already: use `await agent.arun(task)`")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(self.arun(task, on_event=on_event))

    async def arun(
        self, task: str, *, on_event: Callable[[StepEvent], object] | None = None
    ) -> Result:
        """Asynchronous variant of `run`."""
        work = _Task(self, task)
        async with aclosing(work.events()) as events:
            async for event in events:
                if on_event is not None:
                    on_event(event)
        return work.result()

    async def stream_steps(self, task: str) -> AsyncIterator[StepEvent]:
        """Works on a task and yields its steps as they happen.

        The last one is a `FinalAnswerEvent` or an `ErrorEvent`.
        """
        async with aclosing(_Task(self, task).events()) as events:
            async for event in events:
                yield event

    async def areset(self) -> None:
        """Discards the conversation and the state of the session."""
        self._messages = [{"role": "system", "content": self._system_prompt}]
        self.memory.clear()
        if self.session is not None:
            await self.session.arewind(0)

    def close(self) -> None:
        """Closes the agent's own session."""
        if self.session is not None and self._owned:
            self.session.close()
            self.session = None
        loop, self._loop = self._loop, None
        if loop is not None:
            if not _in_a_loop():
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def _current_session(self) -> belljar.Session:
        if self.session is None:
            runtime = self._runtime
            if runtime is None:
                runtime = await asyncio.to_thread(belljar.default_runtime)
            self.session = await runtime.asession(**self._session_options)
        return self.session

    def _go_on_with(self, session: belljar.Session) -> None:
        if self._owned and self.session is not None:
            self.session.close()
        self.session = session
        self._owned = True


class _Task:
    """The state of one task."""

    def __init__(self, agent: Agent, task: str) -> None:
        self._agent = agent
        self._task = task
        self._messages = agent._messages
        self._limits = agent.limits
        self._begun = time.monotonic()
        self._tokens = 0
        self._steps: list[Step] = []
        self._answer: str | None = None
        self._error: str | None = None

    def result(self) -> Result:
        return Result(
            answer=self._answer,
            error=self._error,
            steps=tuple(self._steps),
            tokens=self._tokens,
            seconds=time.monotonic() - self._begun,
        )

    async def events(self) -> AsyncGenerator[StepEvent, None]:
        begun_with = len(self._messages)
        try:
            async with aclosing(self._work()) as events:
                async for event in events:
                    yield event
        except _StopTaskError as stop:
            self._error = str(stop)
            if self._steps and (error := self._steps[-1].outcome.error):
                self._error += f"; the last error was {error}"
            yield ErrorEvent(self._error)
        except BaseException:
            # If the model's client failed, for example, the conversation stays as before the task.
            del self._messages[begun_with:]
            raise

    async def _work(self) -> AsyncGenerator[StepEvent, None]:
        self._messages.append({"role": "user", "content": self._task})
        while True:
            replies: list[Reply] = []
            async with aclosing(self._ask()) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Reply):
                        replies.append(piece)
                    else:
                        yield TokenEvent(piece)
            ways = [(reply, code) for reply in replies if (code := extract_code(reply))]
            if 2 * len(ways) < len(replies) or not ways:
                reply = next(reply for reply in replies if not extract_code(reply))
                self._messages.append({"role": "assistant", "content": reply})
                self._answer = reply.strip()
                yield FinalAnswerEvent(self._answer)
                return
            if len(self._steps) >= self._limits.tries:
                raise _StopTaskError(f"no answer after {len(self._steps)} tries")
            async for event in self._step(ways):
                yield event

    async def _step(self, ways: list[tuple[Reply, str]]) -> AsyncIterator[StepEvent]:
        if len(ways) == 1:
            reply, code = ways[0]
            for event in _announce(reply, code):
                yield event
            run, rewound = await self._run(code)
        else:
            index, run, rewound = await self._run_best([code for _, code in ways])
            reply, code = ways[index]
            for event in _announce(reply, code):
                yield event
        observation = describe(run.outcome.to_dict())
        step = Step(without_code(reply), _TOOL, code, observation, run)
        self._steps.append(step)
        self._agent.memory.add_step(step)
        told = observation_message(observation, rewound=rewound)
        if len(self._steps) >= self._limits.tries:
            told += f"\n\n{NO_MORE_CODE}"
        self._messages += [
            {"role": "assistant", "content": reply},
            {"role": "user", "content": told},
        ]
        yield ObservationEvent(observation, tool=_TOOL, run=run)

    async def _ask(self) -> AsyncGenerator[str, None]:
        """Streams the parts of the model's reply, then the replies, each a `Reply`."""
        if self._limits.tokens is not None and self._tokens >= self._limits.tokens:
            raise _StopTaskError(f"no answer within {self._limits.tokens} tokens")
        agent = self._agent
        if not agent._stream:
            asked = asyncio.gather(
                *(reply_of(agent._chat, list(self._messages)) for _ in range(agent._best_of))
            )
            for reply in await self._in_time(asked):
                self._tokens += reply.cost(self._messages)
                yield reply
            return
        async with aclosing(pieces_of(agent._chat, list(self._messages))) as pieces:
            while True:
                try:
                    piece = await self._in_time(anext(pieces))
                except StopAsyncIteration:
                    return
                if isinstance(piece, Reply):
                    self._tokens += piece.cost(self._messages)
                yield piece

    async def _run(self, code: str) -> tuple[belljar.Run, bool]:
        session = await self._agent._current_session()
        before = await session.aexecution() if self._agent._rewind_failed else 0
        try:
            run = await self._bounded(session.arun, code)
        except _StopTaskError:
            if self._agent._rewind_failed:
                await session.arewind(before)
            raise
        if self._agent._rewind_failed and not run.outcome.success:
            await session.arewind(before)
            return run, True
        return run, False

    async def _run_best(self, codes: list[str]) -> tuple[int, belljar.Run, bool]:
        agent = self._agent
        session = await agent._current_session()
        best = await self._bounded(abest_of, session, codes, score=agent._score)
        if agent._rewind_failed and not best.outcome.success:
            best.session.close()
            return best.index, best.run, True
        agent._go_on_with(best.session)
        return best.index, best.run, False

    async def _bounded(self, run: Any, *args: Any, **options: Any) -> Any:
        """Runs code within what is left of the task's time."""
        options = {**self._agent._run_options, **options}
        left = self._seconds_left()
        usual = options.get("timeout", self._agent._usual_timeout)
        if left is not None and usual is not None:
            options["timeout"] = max(min(usual, left), 0.001)
            return await run(*args, **options)
        # The time left may exceed the run's own limit, so it is not passed as a timeout.
        return await self._in_time(run(*args, **options))

    def _seconds_left(self) -> float | None:
        if self._limits.seconds is None:
            return None
        return self._begun + self._limits.seconds - time.monotonic()

    async def _in_time(self, awaitable: Any) -> Any:
        left = self._seconds_left()
        if left is None:
            return await awaitable
        try:
            return await asyncio.wait_for(awaitable, max(left, 0))
        except asyncio.TimeoutError:
            raise _StopTaskError(f"no answer within {self._limits.seconds} seconds") from None


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _announce(reply: Reply, code: str) -> list[StepEvent]:
    thought = without_code(reply)
    action = ActionEvent(_TOOL, code)
    return [ThoughtEvent(thought), action] if thought else [action]
