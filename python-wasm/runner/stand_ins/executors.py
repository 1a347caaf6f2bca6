"""`concurrent.futures` without threads and processes: submitted calls are done in place."""

import sys

from _belljar.protocol.interrupt import Interrupted
from _belljar.stand_ins import in_place, shared
from _belljar.stand_ins.in_place import DONE, STATE, WAITING, Job, SetAside

_modules = sys.modules


class _Task(Job):
    """A submitted call, and the future for its result."""

    def __init__(self, thread, future, call):
        super().__init__(thread)
        self.future = future
        self._call = call

    def work(self):
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            value = self._call()
        except (Interrupted, SetAside):
            self.future.cancel()
            raise
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            self.future.set_exception(error)
        else:
            self.future.set_result(value)


def patch_base(module):
    """For `concurrent.futures._base`."""
    usual_completed = module.as_completed
    usual_done = module.Future.done

    def as_completed(fs, timeout=None):
        """An iterator over the given futures that yields each as it completes."""
        waited_for = list(dict.fromkeys(fs))
        if not STATE.allowed or timeout is not None:
            yield from usual_completed(waited_for, timeout)
            return
        # In the given order, if they are done when asked.
        for number, future in enumerate(waited_for):
            _settle(future)
            if not usual_done(future):
                yield from usual_completed(waited_for[number:])
                return
            yield future

    def done(self):
        """Return True if the future was cancelled or finished executing."""
        _settle(self)
        return usual_done(self)

    module.as_completed = as_completed
    package = _modules.get("concurrent.futures")
    if hasattr(package, "as_completed"):
        package.as_completed = as_completed
    in_place.adopt(module.Future, done)


def _settle(future):
    for job in STATE.waiting:
        if isinstance(job, _Task) and job.future is future:
            in_place.do(job)
            return


def patch_threads(module):
    """For `concurrent.futures.thread`."""
    executor = module.ThreadPoolExecutor
    base = _modules["concurrent.futures._base"]
    usual_init, usual_submit = executor.__init__, executor.submit
    usual_shutdown = executor.shutdown

    def init(self, max_workers=None, thread_name_prefix="", initializer=None, initargs=(), **more):
        usual_init(self, max_workers, thread_name_prefix, initializer, initargs, **more)
        begin = (lambda: initializer(*initargs)) if initializer is not None else None
        self._in_place = _Worker(f"{self._thread_name_prefix}_0", begin)

    def submit(self, fn, /, *args, **kwargs):
        """Submits a callable to be executed with the given arguments."""
        if not STATE.allowed:
            return usual_submit(self, fn, *args, **kwargs)
        if self._shutdown:
            raise RuntimeError("cannot schedule new futures after shutdown")
        if self._in_place.broken is not None:
            raise module.BrokenThreadPool(self._in_place.broken)
        future = base.Future()
        given = [*args, *kwargs.values()]
        self._in_place.take(
            future,
            lambda: fn(*args, **kwargs),
            in_place.may_wait(fn, given),
            module.BrokenThreadPool,
        )
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        """Clean-up the resources associated with the Executor."""
        self._in_place.shut_down(wait, cancel_futures)
        return usual_shutdown(self, wait, cancel_futures=cancel_futures)

    init.__name__ = "__init__"
    for function in (init, submit, shutdown):
        in_place.adopt(executor, function)


def patch_processes(module):
    """For `concurrent.futures.process`: arguments and results are copied."""
    usual = module.ProcessPoolExecutor
    base = _modules["concurrent.futures._base"]

    class ProcessPoolExecutor(base.Executor):
        """Executes calls, in place."""

        def __new__(cls, *args, **kwargs):
            return super().__new__(cls) if STATE.allowed else usual(*args, **kwargs)

        def __init__(
            self,
            max_workers=None,
            mp_context=None,
            initializer=None,
            initargs=(),
            *,
            max_tasks_per_child=None,
        ):
            if max_workers is not None and max_workers <= 0:
                raise ValueError("max_workers must be greater than 0")
            if initializer is not None and not callable(initializer):
                raise TypeError("initializer must be a callable")
            self._max_workers = max_workers or 1
            begin = (lambda: initializer(*initargs)) if initializer is not None else None
            self._in_place = _Worker("MainThread", begin)
            self._shutdown = False

        def submit(self, fn, /, *args, **kwargs):
            if self._shutdown:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._in_place.broken is not None:
                raise module.BrokenProcessPool(self._in_place.broken)
            future = base.Future()
            call = lambda: in_process(fn, args, kwargs)  # noqa: E731
            self._in_place.take(future, call, False, module.BrokenProcessPool)
            return future

        def map(self, fn, *iterables, timeout=None, chunksize=1, **more):
            if chunksize < 1:
                raise ValueError("chunksize must be >= 1.")
            return super().map(fn, *iterables, timeout=timeout, **more)

        def shutdown(self, wait=True, *, cancel_futures=False):
            self._shutdown = True

        def kill_workers(self):
            self._shutdown = True

        terminate_workers = kill_workers

    ProcessPoolExecutor.__module__ = usual.__module__
    ProcessPoolExecutor.__qualname__ = usual.__qualname__
    module.ProcessPoolExecutor = ProcessPoolExecutor


def in_process(function, args, kwargs):
    """Call as in another process: neither side can change objects of the other."""
    function, args, kwargs = shared.transfer((function, args, kwargs))
    return shared.transfer(function(*args, **kwargs))


class _Worker:
    """Replaces the threads of a pool."""

    def __init__(self, name, initializer):
        self._name = name
        self._initializer = initializer
        self._thread = None
        self._jobs = []
        self.broken = None

    def take(self, future, call, is_late, error):
        if self._thread is None:
            threading = _modules["threading"]
            self._thread = threading.Thread(name=self._name)
            self._thread._ident = next(STATE.idents)
        if self._initializer is not None:
            begin, self._initializer = self._initializer, None
            started = _modules["concurrent.futures._base"].Future()
            _Task(self._thread, started, begin).begin()
            if started.exception() is not None:
                self.broken = "A thread initializer failed, the thread pool is not usable anymore"
                future.set_exception(error(self.broken))
                return
        job = _Task(self._thread, future, call)
        if is_late and not _is_in_loop():
            self._jobs = [one for one in self._jobs if one.state is not DONE]
            self._jobs.append(job)
            in_place.defer(job)
        else:
            job.begin()

    def shut_down(self, wait, cancel):
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            if cancel and job.state is WAITING:
                job.future.cancel()
            elif wait:
                in_place.do(job)


def _is_in_loop():
    """Whether an event loop waits for it and would have nothing else to do it."""
    events = _modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None
