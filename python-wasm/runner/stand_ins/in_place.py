"""Threads without threads: each is executed in place, from beginning to end.

A started thread runs at once, inside `start`. A thread that may wait for another (it is given a
queue, an event or a condition, or is a timer) runs when the code waits for something itself, or at
the end of the code. Real threads could have taken any such order. If no order works, because a
thread waits for something that only interrupted code could do later, an error says so: nothing ever
hangs for lack of threads.
"""

import _thread
import functools
import itertools
import sys
import time
import types

from _belljar.protocol.interrupt import Interrupted
from _belljar.source.sources import parts

WAITING, RUNNING, DONE, ASIDE = "waiting", "running", "done", "aside"
_MARGIN = 0.05  # seconds by which a thread may be late
NO_OTHER = "no other thread is left that could do anything about it"

_monotonic = time.monotonic
_usual_sleep = time.sleep
_usual_ident = _thread.get_ident
_allocate = _thread.allocate_lock
_modules = sys.modules


class _State:
    __slots__ = ("allowed", "aside", "ident", "idents", "is_sleep_replaced", "stack", "waiting")

    def __init__(self):
        self.allowed = True
        self.waiting = []  # jobs that have yet to run
        self.stack = []  # those that are running, the innermost last
        self.aside = []  # threads that were left where they wait
        self.ident = None
        self.idents = itertools.count(0x7F000001)
        self.is_sleep_replaced = False


STATE = _State()


class SetAside(BaseException):
    """Ends a waiting thread while the code runs, if that changes nothing."""


class _Wait:
    """The condition that the code waits for while others run."""

    __slots__ = ("_is_over", "_ready", "deadline")

    def __init__(self, ready, deadline):
        self._ready = ready
        self._is_over = False
        self.deadline = deadline

    def is_over(self):
        # Not evaluated again once true: evaluating may consume something.
        self._is_over = self._is_over or self._ready()
        return self._is_over


class Job:
    """The work of a thread."""

    is_thread = False

    def __init__(self, thread, due=0.0):
        self.thread = thread
        self.due = due
        self.state = WAITING
        self.wait = None  # the one in which it runs
        self.waits_for = None  # what, whose and until when, once it was set aside

    def begin(self, wait=None):
        """Run it. Raises only the host's interrupt."""
        self.state = RUNNING
        self.wait = wait
        outer, STATE.ident = STATE.ident, self.thread._ident
        active = _modules["threading"]._active
        before = active.get(STATE.ident)
        active[STATE.ident] = self.thread
        STATE.stack.append(self)
        loop = _leave_loop()
        try:
            self.work()
        finally:
            if self.state is RUNNING:
                self.state = DONE
            _enter_loop(loop)
            STATE.stack.remove(self)
            if before is None:
                active.pop(self.thread._ident, None)
            else:
                active[self.thread._ident] = before
            STATE.ident = outer

    def work(self):
        raise NotImplementedError

    def failed(self, error):
        """Report the exception that is being handled."""
        raise NotImplementedError

    def guarded(self, function):
        """Call `function`, which is the code's. Raises only the host's interrupt."""
        try:
            function()
        except SetAside:
            self.state = ASIDE
            STATE.aside.append(self)
        except Interrupted:
            raise
        except BaseException as error:
            # Without the frames of this file.
            error.__traceback__ = error.__traceback__.tb_next
            self.failed(error)


class _ThreadJob(Job):
    is_thread = True

    def work(self):
        thread = self.thread
        if self.due:
            thread.interval = max(0.0, self.due - _monotonic())
        context = getattr(thread, "_context", None)
        if context is None:
            from contextvars import Context

            context = Context()
        self.guarded(functools.partial(context.run, thread.run))

    def failed(self, error):
        self.thread._invoke_excepthook(self.thread)


def _leave_loop():
    """Hide the running event loop and its task: they belong to the other thread."""
    events = _modules.get("asyncio.events")
    loop = events._get_running_loop() if events is not None else None
    if loop is None:
        return None
    swap = getattr(_modules.get("asyncio.tasks"), "_swap_current_task", None)
    task = swap(loop, None) if swap is not None else None
    events._set_running_loop(None)
    return loop, swap, task


def _enter_loop(left):
    if left is not None:
        loop, swap, task = left
        _modules["asyncio.events"]._set_running_loop(loop)
        if swap is not None:
            swap(loop, task)


def begin(allowed):
    """Before a run."""
    STATE.allowed = allowed
    if STATE.waiting or STATE.aside or STATE.stack:
        _forget()


def _forget():
    STATE.waiting.clear()
    STATE.aside.clear()
    STATE.stack.clear()
    STATE.ident = None
    _put_sleep_back()


def finish():
    """At the end of the code: finish waiting jobs, as a process waits for its threads at exit."""
    try:
        failure = sys.exc_info()[1]
        if isinstance(failure, Interrupted):
            return
        while (job := _next(None, daemons=False)) is not None:
            job.begin()
        for job in STATE.aside:
            if failure is None and (not job.thread.daemon or _is_due(job)):
                raise RuntimeError(_says(job))
        over = _Wait(lambda: True, None)
        while (job := _next(_monotonic())) is not None:
            job.begin(over)
    finally:
        _forget()


def until(ready, what, timeout=None, whose=None):
    """Run other threads until `ready()`; returns False after `timeout` seconds."""
    wait = _Wait(ready, None if timeout is None else _monotonic() + timeout)
    while not wait.is_over():
        job = _next(wait.deadline)
        if job is None:
            break
        job.begin(wait)
    else:
        return True
    if wait.deadline is None:
        _give_up(what, whose)
    _pause(wait.deadline, what, whose)
    return wait.is_over()


def _pause(deadline, what, whose):
    """Let time pass; in a thread, only as long as the code waits for it."""
    top = STATE.stack[-1] if STATE.stack else None
    wait = top.wait if top is not None and top.is_thread else None
    if wait is not None:
        is_over = wait.is_over()
        if is_over or (wait.deadline is not None and wait.deadline < deadline):
            if not is_over:
                _sleep_until(wait.deadline)
            top.waits_for = (what, whose, deadline)
            raise SetAside
    _sleep_until(deadline)


def _sleep_until(deadline):
    remaining = deadline - _monotonic()
    if remaining > 0:
        _usual_sleep(remaining)


def defer(job):
    """Queue `job` for when something waits."""
    STATE.waiting.append(job)
    _replace_sleep()


def do(job):
    """Run a waiting job now."""
    if job in STATE.waiting:
        STATE.waiting.remove(job)
        job.begin()


def do_one():
    """Run the next job, for an event loop that waits."""
    job = _next(None)
    if job is not None:
        job.begin()


def _next(deadline, daemons=True):
    """Take out the next job: the first of those that are due first."""
    found = None
    for job in STATE.waiting:
        if (deadline is None or job.due <= deadline) and (daemons or not job.thread.daemon):
            found = job if found is None or job.due < found.due else found
    if found is not None:
        STATE.waiting.remove(found)
    return found


def _give_up(what, whose):
    top = STATE.stack[-1] if STATE.stack else None
    if top is not None and top.is_thread:
        top.waits_for = (what, whose, None)
        raise SetAside
    raise RuntimeError(f"{what} would wait forever: {NO_OTHER}")


def _name(job):
    return f"the thread {job.thread.name!r}"


def _says(job):
    what = job.waits_for[0]
    return f"{_name(job)} waits for what comes later, in {what}: {NO_OTHER}"


def _is_due(job):
    """Whether the event that a thread waited for happened after it had been set aside."""
    _, whose, wakes = job.waits_for
    if wakes is not None and wakes + _MARGIN < _monotonic():
        return True
    size, is_set = getattr(whose, "qsize", None), getattr(whose, "is_set", None)
    if size is not None or is_set is not None:
        return bool(size() if size is not None else is_set())
    return wakes is None


# threading


def patch_threading(module):
    """For `threading`."""
    thread = module.Thread
    usual_start, usual_join, usual_alive = thread.start, thread.join, thread.is_alive

    def start(self):
        """Start the thread's activity.

        It must be called at most once per thread object. There are no threads here: the activity is
        done before this returns or, if it may wait for another thread, when something waits.
        """
        if not STATE.allowed:
            return usual_start(self)
        if not self._initialized:
            raise RuntimeError("thread.__init__() not called")
        if self._started.is_set():
            raise RuntimeError("threads can only be started once")
        self._ident = next(STATE.idents)
        self._started.set()
        timer = isinstance(self, module.Timer)
        job = _ThreadJob(self, _monotonic() + self.interval if timer else 0.0)
        self._in_place = job
        if timer or _may_wait(self):
            defer(job)
            return None
        job.begin()
        if job.state is ASIDE:
            STATE.aside.remove(job)
            raise RuntimeError(_says(job))
        return None

    def join(self, timeout=None):
        """Wait until the thread terminates."""
        job = self.__dict__.get("_in_place")
        if job is None or self is module.current_thread():
            return usual_join(self, timeout)
        if job.state is WAITING:
            if timeout is None or job.due <= _monotonic() + max(timeout, 0):
                do(job)
            else:
                _sleep(max(timeout, 0))
        if job.state is ASIDE and timeout is None:
            STATE.aside.remove(job)
            job.state = DONE
            raise RuntimeError(_says(job))
        if job.state is RUNNING:
            _give_up("join()", None)
        return None

    def is_alive(self):
        """Return whether the thread is alive."""
        job = self.__dict__.get("_in_place")
        if job is None:
            return usual_alive(self)
        if job.state is WAITING and job.due <= _monotonic():
            do(job)
        return job.state is not DONE

    for function in (start, join, is_alive):
        adopt(thread, function)
    usual_wait = module.Condition.wait

    def wait(self, timeout=None):
        """Wait until notified or until a timeout occurs."""
        if not self._is_owned():
            return usual_wait(self, timeout)
        waiter = _allocate()
        waiter.acquire()
        self._waiters.append(waiter)
        saved = self._release_save()
        notified = False
        try:
            what, whose = _subject(sys._getframe(1))
            notified = until(lambda: not waiter.locked(), what, timeout, whose)
            return notified
        finally:
            self._acquire_restore(saved)
            if not notified and waiter in self._waiters:
                self._waiters.remove(waiter)

    adopt(module.Condition, wait)
    module.Lock = Lock
    # WASI has no numbers of its own for threads, but code for Linux asks for them.
    module.get_ident = module.get_native_id = _ident
    thread.native_id = property(lambda self: self._ident)


def _ident():
    """The number of the running thread."""
    return STATE.ident or _usual_ident()


def _subject(frame):
    """A description of a condition's waiter, and the object whose method it is."""
    name = frame.f_code.co_name
    whose = frame.f_locals.get("self")
    if name == "wait_for":
        return _subject(frame.f_back)
    module = type(whose).__module__
    if whose is None or module not in ("queue", "threading", "multiprocessing.queues"):
        return "wait()", None
    return f"{type(whose).__name__}.{name}()", whose


class Lock:
    """A lock that reports a deadlock instead of waiting."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self):
        self._lock = _allocate()

    def acquire(self, blocking=True, timeout=-1):
        """Lock the lock. Returns whether it was acquired."""
        if not blocking and timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        if timeout < 0 and timeout != -1:
            raise ValueError("timeout value must be a non-negative number")
        if self._lock.acquire(False):
            return True
        if not blocking:
            return False
        wanted = None if timeout == -1 else timeout
        return until(lambda: self._lock.acquire(False), "Lock.acquire()", wanted)

    def release(self):
        """Release the lock."""
        self._lock.release()

    def locked(self):
        """Return whether the lock is locked."""
        return self._lock.locked()

    def __enter__(self):
        return self._lock.acquire(False) or self.acquire()

    def __exit__(self, *_):
        self._lock.release()

    def _at_fork_reinit(self):
        self._lock = _allocate()

    acquire_lock, release_lock, locked_lock = acquire, release, locked

    def __repr__(self):
        state = "locked" if self._lock.locked() else "unlocked"
        return f"<{state} _thread.lock object at {id(self):#x}>"

    def __reduce__(self):
        raise TypeError("cannot pickle '_thread.lock' object")


Lock.__name__ = Lock.__qualname__ = "lock"
Lock.__module__ = "_thread"


def patch_local(module):
    """For `threading`, once the libraries have been loaded: thread-local data."""
    from _threading_local import local

    module.local = local


def patch_queue(module):
    """For `queue`: its C implementation would wait in C, and a full queue is emptied later."""
    module.SimpleQueue = module._PySimpleQueue
    usual_put = module.Queue.put

    def put(self, item, block=True, timeout=None):
        """Put an item into the queue."""
        others = STATE.waiting or STATE.stack
        if not (others and block and timeout is None and 0 < self.maxsize <= self.qsize()):
            return usual_put(self, item, block, timeout)
        # A consumer would take it now; it does so later, with the same result.
        bound, self.maxsize = self.maxsize, 0
        try:
            return usual_put(self, item)
        finally:
            self.maxsize = bound

    adopt(module.Queue, put)


def adopt(cls, function):
    function.__qualname__ = f"{cls.__qualname__}.{function.__name__}"
    function.__module__ = cls.__module__
    setattr(cls, function.__name__, function)


# What may wait


def _may_wait(thread):
    """Whether a thread may wait for another."""
    threading = _modules["threading"]
    if type(thread).run is threading.Thread.run:
        function = thread._target
        given = [*thread._args, *(thread._kwargs or {}).values()]
    else:
        function = thread.run
        common = threading.main_thread().__dict__
        given = [value for key, value in thread.__dict__.items() if key not in common]
    return may_wait(function, given, is_daemon=thread.daemon)


def may_wait(function, given=(), is_daemon=False):
    """Whether a function is passed, or refers to, something to wait for."""
    found = [*given]
    for _ in range(4):  # a partial of a partial
        inner = getattr(function, "func", None)
        if inner is None:
            break
        found += [
            *getattr(function, "args", ()),
            *(getattr(function, "keywords", None) or {}).values(),
        ]
        function = inner
    if type(function) is types.MethodType:
        owner, function = function.__self__, function.__func__
        threading = _modules["threading"]
        if not isinstance(owner, threading.Thread):
            found += list(getattr(owner, "__dict__", {}).values())
    if type(function) is types.FunctionType:
        for cell in function.__closure__ or ():
            try:
                found.append(cell.cell_contents)
            except ValueError:
                continue
        for code in parts(function.__code__):
            found += [function.__globals__.get(name) for name in code.co_names]
            if is_daemon and "sleep" in code.co_names:
                return True
    kinds = _kinds()
    return any(issubclass(type(one), kinds) for one in found)


def _kinds():
    threading = _modules["threading"]
    queue = _modules.get("queue")
    kinds = (threading.Event, threading.Condition)
    return (*kinds, queue.Queue, queue._PySimpleQueue) if queue is not None else kinds


# Sleeping


def _replace_sleep():
    """Make `time.sleep` run other threads, if there are any."""
    if not STATE.is_sleep_replaced:
        STATE.is_sleep_replaced = True
        _exchange_sleep(_usual_sleep, _sleep)


def _put_sleep_back():
    if STATE.is_sleep_replaced:
        STATE.is_sleep_replaced = False
        _exchange_sleep(_sleep, _usual_sleep)


def _exchange_sleep(old, new):
    main = _modules.get("__main__")
    for namespace in (time.__dict__, getattr(main, "__dict__", {})):
        if namespace.get("sleep") is old:
            namespace["sleep"] = new


def _sleep(seconds, /):
    if type(seconds) not in (int, float) or seconds < 0:
        return _usual_sleep(seconds)
    deadline = _monotonic() + seconds
    wait = _Wait(lambda: False, deadline)
    while (job := _next(deadline)) is not None:
        job.begin(wait)
    _pause(deadline, "time.sleep()", None)
    return None


_sleep.__name__ = _sleep.__qualname__ = "sleep"
_sleep.__module__ = "time"
