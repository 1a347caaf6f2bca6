"""One run, in order: request, preparation, user code, status, harvest, end."""

import sys
import types

from _belljar.dialect import dialect, shell
from _belljar.display import displays, figures, notebook
from _belljar.protocol import entropy, guard, interrupt, monitors, streams
from _belljar.protocol.door import fetch, receive, send, send_bytes
from _belljar.run import checks, ending, questions
from _belljar.source import namespaces, originals, policy, sources
from _belljar.stand_ins import in_place, loops
from _belljar.tools import tools
from _belljar.values import building, frames, typed, values

_PACKAGE = sys.modules["_belljar"]
_STATE = interrupt.STATE
_COROUTINE = 0x80  # CO_COROUTINE: the code awaits at its top level
_DEPTH = 100  # what the host's JSON reader takes, less the frame around the value
_PLAIN = frozenset((bool, float, int, str))
_displayhook = sys.__displayhook__
_modules = sys.modules
_set_trace, _set_profile = sys.settrace, sys.setprofile


def run():
    """Run the host's request. Returns None; the results are in the frames sent."""
    # An interrupt that arrived after the previous run does not apply to this one.
    interrupt.forget()
    # Hidden from the code, and restored for the host, even if the code has replaced it.
    _modules.pop("_belljar", None)
    try:
        _run(fetch())
    finally:
        _STATE.phase = interrupt.IDLE
        interrupt.forget()
        _modules["_belljar"] = _PACKAGE


def _run(request):
    if request.get("check"):
        _check(request)
        return
    session = request["session"]
    if request.get("question"):
        _ask(request)
        return
    guard.quietly(entropy.reseed, request["entropy"], request["deterministic"])
    if session:
        streams.refresh(request.get("stdin_used", False))
        ending.regain_control()
    displays.begin(request.get("displays", False))
    in_place.begin(request["threads"] != "refuse")
    tools.prepare(request.get("tools"))
    tools.prepare_input(request.get("input", False))
    figures.begin(request["figures"], request["workspace"], session)
    name = request["result_var"] or "result"
    program, around, status = _compile(request)
    if program is not None:
        status = _give(request) or _execute(program, around, request)
    _deliver(status)
    ending.hand_over()
    with originals.restored(lazily=True):
        guard.attempt("The figures cannot be captured", figures.harvest, session)
        displays.harvest()
        if request["frames"]["capture"]:
            what = "The pandas objects cannot be found"
            order = request["frames"]
            guard.attempt(what, frames.harvest, namespaces.GLOBALS, order, shell.owns, session)
        if not session or request["result_var"] or _is_set_by(program, name):
            what = f"The value of `{name}` cannot be read"
            if request.get("typed"):
                guard.attempt(what, _send_typed, name, request["typed"])
            else:
                guard.attempt(what, _send_value, name, request["value"])
    # From here on it belongs to the code again: exit handlers and destructors.
    send(b"x", {})
    if session:
        guard.quietly(namespaces.take_back)
        ending.flush()
    else:
        ending.finish_process()
    send(b"e", {})


def _check(request):
    status, missing = checks.check(request)
    _deliver(status)
    send(b"v", {"value": missing, "truncated": False})
    send(b"e", {})


def _ask(request):
    streams.refresh(request.get("stdin_used", False))
    ending.regain_control()
    questions.answer(request["question"], request["typed"])
    _deliver(ending.OK)
    send(b"e", {})


def _deliver(status):
    """Send the status. If the host is at its limit for this run, the rest still takes place."""
    try:
        ending.deliver(status)
    except Exception as error:
        guard.note(f"The status cannot be sent: {guard.describe(error)}")


def _is_set_by(program, name):
    """In a session, a `result` of an earlier run must not be reported again."""
    return program is not None and sources.mentions(program, name)


def _compile(request):
    """The code object, its context manager, and None; or None, None and the status that explains
    the failure.
    """
    rules = request["policy"]
    limited = around = None
    try:
        try:
            _STATE.phase = interrupt.USER
            code, tree = _text(request), None
            # Policies check Python.
            is_cell = request.get("dialect") == "ipython" and rules is None
            shell.begin(is_cell, code, not request.get("uncounted", False))
            text = code
            if shell.count() is not None:
                text, around = _rewritten(code)
            if rules is not None:
                tree = sources.parse(code)
                violations, _ = policy.inspect(tree, rules)
                if violations:
                    return None, None, ending.refused(violations)
                limited = policy.namespace(rules)
            program = sources.translate(text, request["echo"], tree)
        finally:
            _STATE.phase = interrupt.IDLE
    except BaseException as error:
        shell.end(error, began=False)
        return None, None, ending.of_syntax_error(error, request["cwd"])
    sources.remember(program, code, shell.count())
    try:
        namespaces.prepare(request, limited)
    except OSError as error:
        return None, None, ending.of_exception(error, request["cwd"])
    return program, around, None


def _rewritten(code):
    """Code of IPython's dialect in Python, and what a cell magic does around it."""
    cell = dialect.split_cell(code)
    if cell is None:
        return dialect.rewrite(code), None
    name, line, body = cell
    around = shell.around(name, line)
    if around is not None:
        return dialect.rewrite(body), around
    return f"get_ipython().run_cell_magic({name!r}, {line!r}, {body!r})", None


def _text(request):
    code = request["code"].removeprefix("\ufeff")
    return sources.dedent(code) if request["dedent"] else code


def _give(request):
    """Set the caller's variables. Returns the status on failure."""
    if not request.get("given"):
        return None
    try:
        with originals.restored():
            namespaces.GLOBALS.update(building.decode(receive(b"G")))
    except BaseException as error:
        return ending.of_exception(error, request["cwd"])
    return None


def _execute(program, around, request):
    originals.watch(program)
    is_monitored = False
    echo = request["echo"]
    if echo != "none":
        hook = _HOOKS[echo]
        sys.displayhook = hook if shell.count() is None else shell.remembering(hook)
    try:
        try:
            _STATE.phase = interrupt.USER
            interrupt.check()
            try:
                if around is not None:
                    around(lambda: _run_program(program, request["session"]))
                else:
                    _run_program(program, request["session"])
            finally:
                if in_place.STATE.waiting or in_place.STATE.aside:
                    in_place.finish()
        finally:
            _STATE.phase = interrupt.IDLE
            # Before any call of the runner, which these hooks would see.
            for _ in monitors.TOOLS:
                for tool in monitors.names:  # noqa: B007
                    break
                if tool is not None:
                    is_monitored = True
                    for _ in monitors.CALLBACKS:
                        for _ in monitors.unregister:
                            break
            try:
                _set_trace(None)
                _set_profile(None)
            except BaseException:  # noqa: S110
                pass  # an audit hook refuses it; `regain_control` tries each on its own
    except BaseException as error:
        ending.regain_control(is_monitored)
        status = ending.of_exception(error, request["cwd"])
        shell.end(error)
    else:
        ending.regain_control(is_monitored)
        status = ending.OK
        shell.end()
    if echo != "none":
        sys.displayhook = _displayhook
    return status


def _run_program(program, session):
    if program.co_flags & _COROUTINE:
        main = types.FunctionType(program, namespaces.GLOBALS)
        loops.drive(main(), session)
    else:
        exec(program, namespaces.GLOBALS)


def _print_text(value):
    if value is not None:
        print(value)


def _print_repr(value):
    if value is not None:
        print(repr(value))


_HOOKS = {"all": _print_text, "last": _print_repr, "display": notebook.result}


def _send_value(name, options):
    value = namespaces.GLOBALS.get(name)
    if value is None:
        return
    if type(value) not in _PLAIN:
        originals.needed()
    limits = values.Limits(
        min(options["max_depth"], _DEPTH), options["max_items"], options["max_bytes"]
    )
    plain, truncated = values.convert(value, limits)
    send(b"v", {"value": plain, "truncated": truncated})


def _send_typed(name, bounds):
    if name not in namespaces.GLOBALS:
        return
    originals.needed()
    limits = typed.Limits(**bounds)
    # Kept until the host has read the encoded data.
    encoded = typed.encode(namespaces.GLOBALS[name], limits)
    send_bytes(b"V", (b"\1" if encoded.truncated else b"\0") + encoded.payload)
