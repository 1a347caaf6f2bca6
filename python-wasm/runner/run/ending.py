"""The end of the user's code: the status frame, and the exit of the process."""

import atexit
import gc
import io
import sys
import weakref

from _belljar.dialect import cells, shell
from _belljar.display import displays
from _belljar.protocol import guard, interrupt, monitors, streams
from _belljar.protocol.door import encode, send, send_bytes
from _belljar.protocol.inspecting import is_kind, mro_of, text_of
from _belljar.run import hints
from _belljar.source import namespaces, originals, policy, tracebacks

_exit_code_of = SystemExit.code.__get__
_exit_handlers = atexit._run_exitfuncs
_handler_count = atexit._ncallbacks
_set_recursion_limit = sys.setrecursionlimit
_set_trace, _set_profile = sys.settrace, sys.setprofile
_set_traceback = BaseException.__traceback__.__set__
_usual_hook = sys.__excepthook__
_NO_HOOK = "sys.excepthook is missing, printing exception to stderr\n"


class _State:
    __slots__ = ("handlers", "no_files", "recursion_limit", "reserve", "sealed", "unhandled")

    def __init__(self):
        self.handlers = 0
        self.no_files = frozenset()
        self.recursion_limit = 1000
        self.reserve = None
        self.sealed = False
        self.unhandled = None  # an exception for the code's own hook, and our report of it


_STATE = _State()


def seal():
    """Record the state of an untouched interpreter.

    Baking may have run the exit handlers, which removes them: those that a run needs are restored.
    """
    weakref.finalize._registered_with_atexit = False
    logging = sys.modules.get("logging")
    if logging is not None:
        atexit.unregister(logging.shutdown)
        atexit.register(logging.shutdown)
    _STATE.handlers = _handler_count()
    _STATE.recursion_limit = sys.getrecursionlimit()
    _STATE.reserve = None
    _STATE.sealed = True
    kinds = set(map(type, gc.get_objects()))
    # The image's base is frozen already, and not listed again.
    _STATE.no_files |= {kind for kind in kinds if _layer(kind) is None}


def reserve():
    """Reserve memory, to be freed when memory has run out, so that this can still be reported."""
    _STATE.reserve = bytearray(512 * 1024)


OK = {
    "status": "ok",
    "type": None,
    "message": None,
    "line": None,
    "traceback": None,
    "exit_code": None,
    "hint": None,
}
_OK_FRAME = encode(OK)


def deliver(status):
    """Send the status; for most runs only success."""
    if status is OK:
        send_bytes(b"s", _OK_FRAME)
    else:
        send(b"s", status)


def refused(violations):
    """The status of code that the policy forbids."""
    status = dict(OK)
    status["status"] = "policy"
    status["type"] = "SecurityError"
    status["message"] = policy.summary(violations)
    status["line"] = violations[0]["line"]
    status["violations"] = violations
    return status


def regain_control(is_monitored=True):
    """Remove hooks of the code from all calls of the runner.

    Audit hooks cannot be removed, and may reject each of these steps.
    """
    try:
        _set_trace(None)
        _set_profile(None)
        if is_monitored:
            monitors.free()
        interrupt.install()
        _set_recursion_limit(_STATE.recursion_limit)
    except BaseException:
        for step in _STEPS:
            _try(*step)
        _try(_set_recursion_limit, _STATE.recursion_limit)


def _try(func, *arguments):
    try:
        return func(*arguments)
    except BaseException:
        return None


_STEPS = (
    (_set_trace, None),
    (_set_profile, None),
    (monitors.free,),
    (interrupt.install,),
)


def of_exception(error, cwd):
    """The status of an uncaught exception, whose traceback is on stderr."""
    if is_kind(error, MemoryError):
        _STATE.reserve = None
    if is_kind(error, SystemExit):
        return _exited(error)
    return _report(error, _kind(error), cwd)


def of_syntax_error(error, cwd):
    """The status of code that does not compile."""
    wrong_text = is_kind(error, SyntaxError) or is_kind(error, ValueError)
    return _report(error, "syntax" if wrong_text else _kind(error), cwd)


def _kind(error):
    if type(error) is interrupt.Interrupted:
        return "interrupted"
    # The parser has no other error for source that is nested too deeply.
    if is_kind(error, MemoryError) and guard.quietly(hints.is_nesting, error):
        return "exception"
    return "memory" if is_kind(error, MemoryError) else "exception"


def _report(error, kind, cwd):
    status = dict(OK)
    status["status"] = kind
    report = tracebacks.Report(error)
    with originals.restored():
        guard.quietly(report.read, error)
        if shell.count() is not None:
            report.text = guard.quietly(cells.render, error, shell.count()) or report.text
    if kind != "interrupted" and getattr(sys, "excepthook", None) is not _usual_hook:
        _STATE.unhandled = (error, report)
    else:
        _write_report(report.stderr())
    status["type"] = report.type
    status["message"] = report.message
    status["line"] = report.line
    status["traceback"] = report.traceback()
    status["hint"] = guard.quietly(hints.hint, error, cwd)
    return status


def _write_report(text):
    """Write the error that ended the code to stderr; as an event it comes with the status."""
    if displays.STATE.on:
        _try(send, b"t", {})
    streams.write_error(text)


def hand_over():
    """Pass an uncaught exception to the code's own `sys.excepthook`, as the interpreter does.

    The status is already sent: whatever the hook does, the code has failed.
    """
    if _STATE.unhandled is None:
        return
    (error, report), _STATE.unhandled = _STATE.unhandled, None
    hook = getattr(sys, "excepthook", _usual_hook)
    if hook is _usual_hook:
        streams.write_error(_NO_HOOK + report.stderr())
        return
    trace = tracebacks.outermost(error)
    _set_traceback(error, trace)
    sys.last_exc, sys.last_type = error, type(error)
    sys.last_value, sys.last_traceback = error, trace
    failure = guard.failure_of(hook, type(error), error, trace)
    regain_control()
    if failure is None or is_kind(failure, SystemExit):
        return
    own = tracebacks.Report(failure)
    with originals.restored():
        guard.quietly(own.read, failure)
    streams.write_error(
        f"Error in sys.excepthook:\n{own.stderr()}\nOriginal exception was:\n{report.stderr()}"
    )


def _exited(error):
    """`sys.exit()`: a number is the status, anything else is a message and status 1."""
    status = dict(OK)
    code = _exit_code_of(error)
    if code is None:
        status["exit_code"] = 0
        return status
    if is_kind(code, int):
        number = int.__pos__(code)
        status["exit_code"] = number if -(2**31) <= number < 2**31 else -1
        message = str(status["exit_code"])
    else:
        found = guard.quietly(text_of, code, tracebacks.TRACEBACK_LIMIT, str)
        message = found[0] if found is not None else "<exit message str() failed>"
        _write_report(message + "\n")
        message = message[: tracebacks.MESSAGE_LIMIT]
        status["exit_code"] = 1
    if status["exit_code"] != 0:
        status["status"] = "exit"
        status["type"] = "SystemExit"
        status["message"] = message
    return status


def finish_process():
    """The end of a process: exit handlers, destructors, open files.

    After the harvest, because it is destructive: matplotlib's exit handler, for example, closes
    every figure.
    """
    if _handler_count() != _STATE.handlers:
        guard.attempt("An exit handler failed", _exit_handlers)
    flush()
    guard.attempt("The end of the run failed", namespaces.clear)
    guard.attempt("An open file cannot be flushed", _close_files)


def _close_files():
    """Close open files, outer layers first, because each writes into the one below it.

    Only a sealed image knows which files belong to the run: older ones are frozen, and not listed
    by the garbage collector.
    """
    if not _STATE.sealed:
        return
    everything = gc.get_objects()
    kinds = set(map(type, everything)) - _STATE.no_files
    layers = {kind: _layer(kind) for kind in kinds}
    files = {kind for kind in kinds if layers[kind] is not None}
    if not files:
        return
    found = [thing for thing in everything if type(thing) in files]
    for thing in sorted(found, key=lambda thing: layers[type(thing)]):
        if not streams.is_ours(thing):
            guard.quietly(_close, thing)


def _close(thing):
    thing.close()


def _layer(kind):
    """0 for text, 2 for the plain buffers at the bottom, 1 for layers in between (`gzip`)."""
    bases = mro_of(kind)
    if io.TextIOWrapper in bases:
        return 0
    if io.BufferedWriter in bases or io.BufferedRandom in bases:
        return 2
    if io.BufferedIOBase not in bases or io.BufferedReader in bases or io.BytesIO in bases:
        return None
    return 1


def flush():
    for stream in streams.replaced():
        guard.attempt("A replaced output stream cannot be flushed", _flush, stream)


def _flush(stream):
    # Even looking up the method may run code.
    stream.flush()
