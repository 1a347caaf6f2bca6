"""The workers of a pool: assigns work, watches them, and replaces lost ones.

Everything runs on one thread with an event loop, so that pools can be used from any thread and any
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import belljar
from belljar import _errors

from ._result import LostError, Result
from ._worker import BelljarWorker

if TYPE_CHECKING:
    from ._worker import Done

_LOG = logging.getLogger("belljar")
# Number of consecutive workers lost at startup before their place is given up.
_MAX_STARTS = 3
# Time for a worker to clean up before it is killed.
_CLOSING_SECONDS = 5.0


def ray_module() -> Any:
    """Ray, imported on first use."""
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != "ray":
            raise
        text = "belljar.ray needs Ray: pip install ray"
        raise ImportError(text, name="ray") from None
    return ray


@dataclass(frozen=True)
class WorkerInfo:
    """A running worker: its process, the id of its node, and its number of runs."""

    pid: int
    node: str
    runs: int


class Chunk:
    """Inputs sent together, with their indexes, and the losses of earlier attempts."""

    __slots__ = ("inputs", "is_dropped", "job", "losses", "notify", "over", "retries")

    def __init__(
        self,
        job: Any,
        inputs: list[tuple[int, Any]],
        retries: int,
        notify: Callable[[list[Result]], object],
        is_dropped: Callable[[], bool],
        losses: tuple[str, ...] = (),
        over: Callable[[], object] = lambda: None,
    ) -> None:
        self.job = job
        self.inputs = inputs
        self.retries = retries
        self.notify = notify
        self.is_dropped = is_dropped
        self.losses = losses
        # Called when the chunk is finished.
        self.over = over

    def parts(self, *loss: str) -> list[Chunk]:
        """Splits into single inputs, because one of them may crash workers."""
        losses = (*self.losses, *loss)
        return [
            Chunk(self.job, [held], self.retries, self.notify, self.is_dropped, losses, self.over)
            for held in self.inputs
        ]

    def finish(self, done: list[Done], worker: str) -> None:
        """Passes on a worker's answer."""
        self.notify(
            [
                Result(
                    index=index,
                    attempts=len(self.losses) + 1,
                    losses=self.losses,
                    worker=worker,
                    failure=held.failure,
                    _outcome=held.outcome,
                    _contents=held.contents,
                    _value=held.value,
                )
                for (index, _), held in zip(self.inputs, done, strict=True)
            ]
        )
        self.over()

    def fail(self, error: Exception) -> None:
        """Passes on that the chunk failed."""
        self.notify(
            [
                Result(
                    index=index,
                    attempts=len(self.losses),
                    losses=self.losses,
                    worker=None,
                    failure=error,
                    _outcome=None,
                    _contents={},
                )
                for index, _ in self.inputs
            ]
        )
        self.over()


@dataclass
class _Hand:
    """A running worker."""

    actor: Any
    pid: int
    node: str
    runs: int = 0

    def __str__(self) -> str:
        return f"{self.pid}@{self.node}"


class Crew:
    """A group of workers and their tasks."""

    def __init__(
        self,
        size: int,
        actor_options: Mapping[str, Any],
        settings: Mapping[str, Any],
        image: str | None,
        store: Mapping[str, Any] | None,
    ) -> None:
        self._ray = ray_module()
        self._process = os.getpid()
        self.size = size
        # Ray must not restart workers: the replacement has to know the lost work. Two concurrent
        # calls, so that a run can be cancelled while it is in progress.
        options = {"max_restarts": 0, "max_task_retries": 0, "max_concurrency": 2, **actor_options}
        kind = self._ray.remote(BelljarWorker)
        self._make: Callable[[], Any] = lambda: kind.options(**options).remote(
            settings, image, store
        )
        self._actors: set[Any] = set()
        self._hands: list[_Hand] = []
        self._open_places = size
        # The reason why the last place was given up.
        self._reason: Exception | None = None
        # Sorted by loss, so that lost work is done first.
        self._work: asyncio.PriorityQueue[tuple[int, int, Chunk]] = asyncio.PriorityQueue()
        self._order = count()
        # Chunks that wait for an earlier one of the same session; entries exist while one is
        # active.
        self._turns: dict[str, deque[Chunk]] = {}
        self._lock = threading.Lock()
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._main, name="belljar-ray", daemon=True)
        self._thread.start()

    def submit(self, chunk: Chunk) -> None:
        """Queues a chunk. Results are passed to the chunk on the crew's thread."""
        with self._lock:
            if not self._is_closed:
                self._loop.call_soon_threadsafe(self._add, chunk)
                return
        chunk.fail(_closed())

    def submit_in_turn(self, session: str, chunk: Chunk) -> None:
        """Queues a chunk after earlier ones of the same session, so that no worker is blocked
        waiting for another.
        """
        chunk.over = lambda: self._loop.call_soon(self._next_turn, session)
        with self._lock:
            if not self._is_closed:
                self._loop.call_soon_threadsafe(self._add_turn, session, chunk)
                return
        chunk.over = lambda: None
        chunk.fail(_closed())

    def check_process(self) -> None:
        """Refuses requests in a forked child, where the threads of this class and of Ray do not
        exist.
        """
        if os.getpid() != self._process:
            text = "the pool belongs to another process, from which this one was forked"
            raise _errors.make(text, "forked", hint="Make one in this process")

    def workers(self) -> tuple[WorkerInfo, ...]:
        """The running workers."""
        return tuple(WorkerInfo(hand.pid, hand.node, hand.runs) for hand in list(self._hands))

    def close(self) -> None:
        """Stops the workers, and fails pending work. Does nothing in a forked child."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if self._is_closed:
                return
            self._loop.call_soon_threadsafe(self._end.set)
        # The garbage collector may finalize an abandoned pool on any thread.
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        places = [asyncio.ensure_future(self._place()) for _ in range(self.size)]
        await self._end.wait()
        for place in places:
            place.cancel()
        await asyncio.gather(*places, return_exceptions=True)
        with self._lock:
            self._is_closed = True
        # Earlier submissions have been added by now.
        await asyncio.sleep(0)
        self._fail_waiting(_closed())
        for waiting in list(self._turns.values()):
            for chunk in waiting:
                chunk.fail(_closed())
        await self._dismiss()

    def _add(self, chunk: Chunk) -> None:
        if self._open_places == 0 and self._reason is not None:
            chunk.fail(self._reason)
        else:
            self._work.put_nowait((-len(chunk.losses), next(self._order), chunk))

    def _add_turn(self, session: str, chunk: Chunk) -> None:
        waiting = self._turns.get(session)
        if waiting is None:
            self._turns[session] = deque()
            self._add(chunk)
        else:
            waiting.append(chunk)

    def _next_turn(self, session: str) -> None:
        waiting = self._turns.get(session)
        if waiting:
            self._add(waiting.popleft())
        else:
            self._turns.pop(session, None)

    async def _place(self) -> None:
        """Keeps a worker running in one place, replacing lost ones."""
        try:
            while True:
                await self._use(await self._start())
        except Exception as error:
            _LOG.warning("giving up on a worker in Ray: %s", error)
            self._reason = error
            self._open_places -= 1
            if self._open_places == 0:
                self._fail_waiting(error)

    async def _start(self) -> _Hand:
        for _ in range(_MAX_STARTS):
            actor = self._make()
            self._actors.add(actor)
            try:
                found = await actor.start.remote()
            except self._ray.exceptions.RayError as error:
                lost = _first_line(error)
                _LOG.warning("a worker in Ray was lost while it started: %s", lost)
                self._discard(actor)
                continue
            if isinstance(found, Exception):
                self._discard(actor)
                raise found
            hand = _Hand(actor, *found)
            self._hands.append(hand)
            return hand
        raise LostError(
            f"starting a worker failed {_MAX_STARTS} times: {lost}",
            "ray.lost",
            "machine",
            "See its log in Ray's directory, and check that belljar is installed on every node",
        )

    async def _use(self, hand: _Hand) -> None:
        """Sends work to a worker until the worker is lost."""
        # No chunk may be referenced while waiting for the next one: its map would never end.
        while await self._do(hand, (await self._work.get())[2]):
            pass

    async def _do(self, hand: _Hand, chunk: Chunk) -> bool:
        """Sends a chunk to a worker. Returns whether the worker is still alive."""
        if chunk.is_dropped():
            chunk.over()
            return True
        errors = self._ray.exceptions
        try:
            done = await hand.actor.run.remote(chunk.job, [held for _, held in chunk.inputs])
        except asyncio.CancelledError:
            chunk.fail(_closed())
            raise
        except Exception as error:
            if not isinstance(error, errors.RayError) or isinstance(error, errors.RayTaskError):
                # It cannot be pickled in one of the two directions.
                self._refused(chunk, error)
                return True
            self._hands.remove(hand)
            self._discard(hand.actor)
            self._lost(chunk, f"worker {hand} was lost: {_first_line(error)}")
            return False
        hand.runs += len(done)
        chunk.finish(done, str(hand))
        return True

    def _refused(self, chunk: Chunk, error: Exception) -> None:
        if len(chunk.inputs) == 1:
            chunk.fail(error)
            return
        for part in chunk.parts():
            self._add(part)

    def _lost(self, chunk: Chunk, loss: str) -> None:
        left = chunk.retries - len(chunk.losses)
        again = "done again" if left > 0 else "given up"
        _LOG.warning("%s; what it had to do (%d) is %s", loss, len(chunk.inputs), again)
        for part in chunk.parts(loss):
            if left > 0:
                self._add(part)
                continue
            times = f"{len(part.losses)} workers were" if len(part.losses) > 1 else "a worker was"
            text = f"{times} lost in the middle of input {part.inputs[0][0]}: {loss}"
            part.fail(LostError(text, "ray.lost", "machine"))

    def _fail_waiting(self, error: Exception) -> None:
        while not self._work.empty():
            self._work.get_nowait()[2].fail(error)

    def _discard(self, actor: Any) -> None:
        self._actors.discard(actor)
        with contextlib.suppress(Exception):
            self._ray.kill(actor)

    async def _dismiss(self) -> None:
        # Asking for an actor would start a Ray that was shut down.
        if not self._ray.is_initialized():
            return
        with contextlib.suppress(Exception):
            tidied = [asyncio.ensure_future(_ended(hand.actor)) for hand in self._hands]
            if tidied:
                await asyncio.wait(tidied, timeout=_CLOSING_SECONDS)
            for future in tidied:
                future.cancel()
        self._hands.clear()
        for actor in list(self._actors):
            self._discard(actor)


async def _ended(actor: Any) -> None:
    with contextlib.suppress(Exception):
        await actor.close.remote()


def _closed() -> belljar.BelljarError:
    return _errors.make("the pool is closed", "closed")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
