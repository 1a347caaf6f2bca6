"""asyncio without sockets.

The selector loop wakes itself through a pair of sockets, which the guest does not have. Without
threads they would never be used, so they are omitted. A loop that waits without a timeout for file
descriptors that are not registered would sleep until the deadline; it raises at once instead.
"""

import sys

from _belljar.stand_ins import in_place
from _belljar.tools import calls


class _State:
    __slots__ = ("runner",)

    def __init__(self):
        self.runner = None


_STATE = _State()


def patch_loop(module):
    """For `asyncio.selector_events`."""
    loop = module.BaseSelectorEventLoop
    loop._make_self_pipe = _no_pipe
    loop._close_self_pipe = _no_pipe
    loop._write_to_self = _no_pipe


def _no_pipe(self):
    if getattr(self, "_belljar_checked", False):
        return
    self._belljar_checked = True
    selector = self._selector
    select = selector.select

    def select_or_fail(timeout=None):
        if in_place.STATE.waiting and timeout != 0:
            in_place.do_one()
            return select(0)
        if calls.has_open(self):
            # There is nothing to wait for: files are always ready.
            calls.wait(self, timeout)
            return select(0) if selector.get_map() else []
        if timeout is None and not selector.get_map():
            raise RuntimeError(
                "the event loop would wait forever: every task waits for something that no "
                "other task will do"
            )
        return select(timeout)

    selector.select = select_or_fail


def drive(coroutine, session):
    """Run top-level `await` to its end, like `asyncio.run`; a session keeps its loop."""
    import asyncio

    if not session:
        asyncio.run(coroutine)
        return
    if _STATE.runner is None:
        _STATE.runner = asyncio.Runner()
    _STATE.runner.run(coroutine)


def forget():
    """While an image is sealed: close and unset all loops."""
    _STATE.runner = None
    events = sys.modules.get("asyncio.events")
    if events is not None:
        events._set_running_loop(None)
        policy = getattr(events, "_event_loop_policy", None)
        if policy is not None:
            events._event_loop_policy = None
