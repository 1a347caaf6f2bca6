"""`multiprocessing` without processes: pools and processes do their work in place.

Arguments are copied, as for another process; but module variables are shared with the process.
"""

import functools
import itertools
import sys

from _belljar.protocol.interrupt import Interrupted
from _belljar.stand_ins import in_place, shared
from _belljar.stand_ins.in_place import ASIDE, DONE, STATE, WAITING, Job, SetAside

_modules = sys.modules
_numbers = itertools.count(1)


# Processes


class _Popen:
    """A process that runs in place."""

    def __init__(self, process):
        self.sentinel = self.pid = 1000 + next(_numbers)
        self.returncode = None
        threading = _modules["threading"]
        thread = threading.Thread(name="MainThread", daemon=process.daemon)
        thread._ident = next(STATE.idents)
        self._job = _ProcessJob(thread, self, process)
        given = [*process._args, *process._kwargs.values(), *process.__dict__.values()]
        if in_place.may_wait(process._target, given):
            self._job.is_late = True
            in_place.defer(self._job)
        else:
            self._job.begin()

    def poll(self):
        if self._job.state is WAITING:
            in_place.do(self._job)
        return self.returncode

    def wait(self, timeout=None):
        if self.poll() is None and timeout is None:
            if self._job in STATE.aside:
                STATE.aside.remove(self._job)
            raise RuntimeError(f"the process would never end: {in_place.NO_OTHER}")
        return self.returncode

    def terminate(self):
        if self._job in STATE.waiting:
            STATE.waiting.remove(self._job)
        if self._job.state is not DONE:
            self._job.state, self.returncode = DONE, -15

    kill = interrupt = terminate

    def close(self):
        return


class _ProcessJob(Job):
    is_thread = True
    is_late = False  # after `start`, which forgets what is to be done
    _code = 0

    def __init__(self, thread, popen, process):
        super().__init__(thread)
        self._popen = popen
        self._process = process
        self._what = (process._target, process._args, process._kwargs)

    def work(self):
        process, module = self._process, _modules["multiprocessing.process"]
        target, args, kwargs = self._what
        args, kwargs = shared.copy((args, kwargs))
        process._target, process._args, process._kwargs = target, args, kwargs
        outer, module._current_process = module._current_process, process
        try:
            self.guarded(process.run)
        finally:
            module._current_process = outer
            if self.is_late:
                for name in ("_target", "_args", "_kwargs"):
                    process.__dict__.pop(name, None)
        if self.state is not ASIDE:
            self._popen.returncode = self._code

    def failed(self, error):
        if isinstance(error, SystemExit):
            self._code = _status(error.code)
            return
        self._code = 1
        print(f"Process {self._process.name}:", file=sys.stderr)
        import traceback

        traceback.print_exception(error)


def _status(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


# Pools


class _Result:
    """The result of `apply_async` and similar methods: it is already available."""

    def __init__(self, value=None, error=None):
        self._value, self._error = value, error

    def get(self, timeout=None):
        if self._error is not None:
            raise self._error
        return self._value

    def wait(self, timeout=None):
        return

    def ready(self):
        return True

    def successful(self):
        return self._error is None


_Result.__name__ = _Result.__qualname__ = "ApplyResult"
_Result.__module__ = "multiprocessing.pool"


class _Results:
    """The iterator of `imap`."""

    def __init__(self, results):
        self._results = results

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._results).get()

    def next(self, timeout=None):
        return self.__next__()


class Pool:
    """A pool of processes: does its work in place, in order."""

    _is_process = True
    _name = "ForkPoolWorker-1"

    def __init__(
        self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None
    ):
        if processes is not None and processes < 1:
            raise ValueError("Number of processes must be at least 1")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._state = "RUN"
        self._processes = processes or 1
        if initializer is not None:
            initializer(*initargs)

    def _call(self, function, args, kwargs):
        """The result of a call, as a worker computes it."""
        if self._state != "RUN":
            raise ValueError("Pool not running")
        try:
            if self._is_process:
                function, args, kwargs = shared.transfer((function, args, kwargs))
                value = shared.transfer(_in_worker(self._name, function, args, kwargs))
            else:
                value = function(*args, **kwargs)
        except (Interrupted, SetAside):
            raise
        except Exception as error:
            error.__traceback__ = error.__traceback__.tb_next
            return _Result(error=error)
        return _Result(value)

    def _all(self, function, calls, callback=None, error_callback=None):
        values = []
        for args in calls:
            result = self._call(function, args, {})
            if not result.successful():
                return _answer(result, callback, error_callback)
            values.append(result.get())
        return _answer(_Result(values), callback, error_callback)

    def apply(self, func, args=(), kwds=None):
        return self._call(func, args, kwds or {}).get()

    def apply_async(self, func, args=(), kwds=None, callback=None, error_callback=None):
        return _answer(self._call(func, tuple(args), kwds or {}), callback, error_callback)

    def map(self, func, iterable, chunksize=None):
        return self.map_async(func, iterable).get()

    def map_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        self._check()
        return self._all(func, [(item,) for item in iterable], callback, error_callback)

    def starmap(self, func, iterable, chunksize=None):
        return self.starmap_async(func, iterable).get()

    def starmap_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        self._check()
        return self._all(func, [tuple(item) for item in iterable], callback, error_callback)

    def imap(self, func, iterable, chunksize=1):
        self._check()
        return _Results(iter([self._call(func, (item,), {}) for item in iterable]))

    imap_unordered = imap

    def _check(self):
        if self._state != "RUN":
            raise ValueError("Pool not running")

    def close(self):
        if self._state == "RUN":
            self._state = "CLOSE"

    def terminate(self):
        self._state = "TERMINATE"

    def join(self):
        if self._state == "RUN":
            raise ValueError("Pool is still running")

    def __enter__(self):
        self._check()
        return self

    def __exit__(self, *_):
        self.terminate()


class ThreadPool(Pool):
    """A pool of threads: does its work in place, in order."""

    _is_process = False

    def __init__(self, processes=None, initializer=None, initargs=()):
        super().__init__(processes, initializer, initargs)


for _class in (Pool, ThreadPool):
    _class.__module__ = "multiprocessing.pool"


def _in_worker(name, function, args, kwargs):
    """Call a function that sees itself in another process."""
    module = _modules["multiprocessing.process"]
    outer = module._current_process
    worker = object.__new__(module.BaseProcess)
    worker.__dict__.update(outer.__dict__)
    worker._name = name
    module._current_process = worker
    try:
        return function(*args, **kwargs)
    finally:
        module._current_process = outer


def _answer(result, callback, error_callback):
    if result.successful():
        if callback is not None:
            callback(result.get())
    elif error_callback is not None:
        error_callback(result._error)
    return result


# Patches


def patch_context(module):
    """For `multiprocessing.context`."""
    import queue
    import threading

    _ = queue, threading
    shared.register()
    context = module.BaseContext
    for name, cls in shared.make_classes().items():
        _replace(context, name, _maker(cls))
    _replace(context, "Pool", lambda self, *args, **kwargs: Pool(*args, **kwargs))
    _replace(context, "Value", shared.make_value)
    _replace(context, "Array", shared.make_array)
    _replace(context, "RawValue", functools.partial(shared.make_value, lock=False))
    _replace(context, "RawArray", functools.partial(shared.make_array, lock=False))
    _replace(context, "Pipe", shared.make_pipe)
    _replace(context, "Manager", lambda self: shared.Manager(self))
    for name in ("Process", "ForkProcess", "SpawnProcess", "ForkServerProcess"):
        process = getattr(module, name, None)
        if process is not None:
            process._Popen = staticmethod(_starter(process._Popen))


def _maker(cls):
    def make(self, *args, **kwargs):
        return cls(*args, **{name: one for name, one in kwargs.items() if name != "ctx"})

    return make


def _replace(cls, name, function):
    usual = getattr(cls, name, None)

    def method(self, *args, **kwargs):
        if not STATE.allowed and usual is not None:
            return usual(self, *args, **kwargs)
        return function(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = getattr(usual, "__doc__", None)
    in_place.adopt(cls, method)


def _starter(usual):
    def start(process):
        return _Popen(process) if STATE.allowed else usual(process)

    return start


def patch_pool(module):
    """For `multiprocessing.pool`."""
    for ours in (Pool, ThreadPool):
        setattr(module, ours.__name__, _choice(getattr(module, ours.__name__), ours))


def _choice(usual, ours):
    def make(cls, *args, **kwargs):
        return object.__new__(cls) if STATE.allowed else usual(*args, **kwargs)

    return type(ours.__name__, (ours,), {"__new__": make, "__module__": ours.__module__})
