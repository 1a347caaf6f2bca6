"""IPython's commands: magics, `!` commands, and the values of earlier expressions."""

import os
import re
import shlex
import sys
import time

from _belljar.display import ipython as ipython
from _belljar.display import notebook
from _belljar.protocol import streams
from _belljar.protocol.inspecting import type_name
from _belljar.source import namespaces, sources

_NO_COMMANDS = "There are no processes in this sandbox, so `{}` cannot be run: use Python instead."
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(\[[^\]]*\])?\s*([<>=!~].*)?")
_WITH_VALUE = frozenset(
    "-c -e -f -i -r -t --constraint --editable --extra-index-url --find-links --index-url "
    "--requirement --target".split()
)
# These change the appearance of a notebook or its terminal; here they do nothing.
_HARMLESS = frozenset(
    "aimport alias autoawait autocall autoindent automagic autoreload autosave colors config "
    "doctest_mode gui load_ext logoff logon logstart logstop matplotlib notebook pdb pdef pprint "
    "precision pylab rehashx reload_ext reset_selective sql tb unload_ext xmode".split()
)
_DISPLAYED = {
    "html": "text/html",
    "HTML": "text/html",
    "javascript": "application/javascript",
    "js": "application/javascript",
    "latex": "text/latex",
    "markdown": "text/markdown",
    "svg": "image/svg+xml",
    "SVG": "image/svg+xml",
}
_HISTORY = 1_000  # values that `Out` keeps
_REPEATS = 7
_LOOPS = 1_000_000
_ENOUGH = 0.02  # seconds that one measurement takes at least


class _State:
    """State that the cells of a session share."""

    __slots__ = ("count", "counts", "ended", "inputs", "last", "on", "outputs", "running")

    def __init__(self):
        self.on = False
        self.count = 0
        self.counts = True
        self.inputs = [""]
        self.outputs = {}
        self.last = ()
        self.running = self.ended = None  # what becomes of this cell, and became of the one before


_STATE = _State()


class ExecutionInfo:
    """The parameters of a cell, under IPython's names."""

    def __init__(self, raw_cell, store_history):
        self.raw_cell = raw_cell
        self.store_history = store_history
        self.silent = False
        self.shell_futures = True
        self.cell_id = None


class ExecutionResult:
    """The result of a cell, under IPython's names."""

    def __init__(self, info, execution_count):
        self.info = info
        self.execution_count = execution_count
        self.error_before_exec = None
        self.error_in_exec = None
        self.result = None

    @property
    def success(self):
        return self.error_before_exec is None and self.error_in_exec is None

    def raise_error(self):
        """Raise the error that ended the cell, if any."""
        if not self.success:
            raise self.error_before_exec or self.error_in_exec

    def __repr__(self):
        names = ("execution_count", "error_before_exec", "error_in_exec", "result")
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"<ExecutionResult {shown}>"


def begin(on, code, counts=True):
    """Begin a run, in the dialect or not. A run that does not count leaves no history."""
    _STATE.on = on
    if not on:
        if ipython.STATE.shell is not None:
            ipython.STATE.shell = None
            _BUILTINS.pop("get_ipython", None)
        return
    _STATE.counts = counts
    if counts:
        _STATE.count += 1
        _STATE.inputs.append(code)
    _STATE.running = ExecutionResult(ExecutionInfo(code, counts), count() if counts else None)
    ipython.STATE.shell = _SHELL
    _BUILTINS["get_ipython"] = ipython.get_ipython
    namespaces.GLOBALS.update(In=_STATE.inputs, Out=_STATE.outputs, _oh=_STATE.outputs)


def count():
    """The number of this run among those in the dialect, or None."""
    return _STATE.count + (not _STATE.counts) if _STATE.on else None


def end(error=None, began=True):
    """Record how the cell ended: without an error, or by one before it `began` or after that."""
    running, _STATE.running = _STATE.running, None
    if running is None:
        return
    if began:
        running.error_in_exec = error
    else:
        running.error_before_exec = error
    _STATE.ended = running


def owns(name):
    """Whether a global variable is set by this module."""
    return _STATE.on and name[:1] == "_" and name.strip("_0123456789") == ""


def remembering(hook):
    """For `sys.displayhook`: call `hook`, and store the value under IPython's names."""

    def show(value):
        if value is None:
            return
        hook(value)
        if _STATE.running is not None:
            _STATE.running.result = value
        if _STATE.counts:
            _remember(value)

    return show


def _remember(value):
    if value is _STATE.outputs:
        return
    space = namespaces.GLOBALS
    names = ("_", "__", "___")
    before = tuple(space.get(name) for name in names[:2])
    # The code's own variables with these names are kept.
    if not _STATE.last or space.get("_") is _STATE.last[0]:
        _STATE.last = (value,)
        space.update(zip(names, (value, *before), strict=True))
    space[f"_{_STATE.count}"] = _STATE.outputs[_STATE.count] = value
    if len(_STATE.outputs) > _HISTORY:
        oldest = next(iter(_STATE.outputs))
        del _STATE.outputs[oldest]
        space.pop(f"_{oldest}", None)


class _Lines(list):
    """Lines of a command's output."""

    @property
    def n(self):
        return "\n".join(self)

    nlstr = n

    @property
    def s(self):
        return " ".join(self)

    spstr = s


class _Events:
    """Where libraries register callbacks of the shell."""

    def register(self, event, function):
        """Never called here."""

    unregister = register


class Shell:
    """The result of `get_ipython()`."""

    def __init__(self):
        self.events = _Events()
        self.user_ns = namespaces.GLOBALS

    @property
    def execution_count(self):
        return count()

    @property
    def last_execution_result(self):
        return _STATE.ended

    @property
    def last_execution_succeeded(self):
        return _STATE.ended is None or _STATE.ended.success

    def run_line_magic(self, name, line, _stack_depth=1):
        found = _LINE_MAGICS.get(name)
        if found is not None:
            return found(line)
        if name not in _HARMLESS:
            _complain(f"UsageError: Line magic function `%{name}` not found.")
        return None

    def run_cell_magic(self, name, line, cell):
        if name in _DISPLAYED:
            notebook.display({_DISPLAYED[name]: cell.strip("\n")}, raw=True)
        elif name in ("writefile", "file"):
            words = line.split()
            path, mode = words[-1] if words else "", "a" if "-a" in words[:-1] else "w"
            how = "Appending to" if mode == "a" else "Overwriting"
            print(f"{how if os.path.exists(path) else 'Writing'} {path}")
            with open(path, mode, encoding="utf-8") as file:
                file.write(cell.lstrip("\n"))
        elif name in ("bash", "sh", "script", "system", "sx", "!"):
            for command in cell.splitlines():
                if command.strip() and not command.lstrip().startswith("#"):
                    self.system(command)
        else:
            _complain(f"UsageError: Cell magic `%%{name}` not found.")

    def magic(self, line):
        name, _, rest = line.lstrip("%").partition(" ")
        return self.run_line_magic(name, rest)

    def system(self, command):
        """Emulate a command, if it is supported."""
        namespaces.GLOBALS["_exit_code"] = _run(command, print)

    def getoutput(self, command):
        """The same, returning the lines."""
        text = []
        namespaces.GLOBALS["_exit_code"] = _run(command, text.append)
        return _Lines("\n".join(text).splitlines())

    def set_next_input(self, *args, **kwargs):
        """Editing is not possible here."""

    enable_gui = enable_matplotlib = enable_pylab = set_next_input


def _complain(text):
    streams.write_error(f"{text}\n")


def _run(command, say):
    """Run a command line. Returns its exit status."""
    try:
        words = shlex.split(_filled_in(command), comments=True)
    except ValueError as error:
        _complain(f"{command}: {error}")
        return 2
    status, part = 0, []
    for word in [*words, ";"]:
        if word not in (";", "&&"):
            part.append(word)
            continue
        if part:
            status = _run_one(part, say)
            part = []
        if word == "&&" and status:
            break
    return status


def _filled_in(command):
    """The command with `{name}` and `$name` replaced by the values of these variables."""

    def value(match):
        name = match.group(1) or match.group(2)
        return str(namespaces.GLOBALS[name]) if name in namespaces.GLOBALS else match.group()

    return re.sub(r"\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)", value, command)


def _run_one(words, say):
    name, rest = words[0], words[1:]
    if name.startswith("python") and rest[:2] == ["-m", "pip"]:
        name, rest = "pip", rest[2:]
    if name in ("uv", "sudo") and rest[:1] in (["pip"], ["pip3"]):
        name, rest = "pip", rest[1:]
    found = _COMMANDS.get(name)
    if found is None or not {"|", ">", ">>", "<", "||", "&"}.isdisjoint(rest):
        _complain(_NO_COMMANDS.format(" ".join(words)))
        return 127
    try:
        return found(rest, say) or 0
    except OSError as error:
        _complain(f"{name}: {error.filename}: {error.strerror}")
        return 1


def _pip(words, say):
    command, rest = (words[0], words[1:]) if words else ("help", [])
    if command == "install":
        return _install(rest, say)
    if command in ("list", "freeze"):
        form = "{} {}" if command == "list" else "{}=={}"
        for name, version in sorted(_distributions().values()):
            say(form.format(name, version))
        return 0
    if command == "show":
        known = _distributions()
        for name in rest:
            if _normal(name) in known:
                say("Name: {}\nVersion: {}".format(*known[_normal(name)]))
        return 0 if all(_normal(name) in known for name in rest) else 1
    say(f"ERROR: `pip {command}` does nothing here: packages cannot be added or removed.")
    return 1


def _install(words, say):
    known = _distributions()
    missing, skip = [], False
    for word in words:
        if skip or word.startswith("-"):
            skip = not skip and word in _WITH_VALUE
            continue
        match = _REQUIREMENT.fullmatch(word)
        name = match.group(1) if match else word
        if _normal(name) not in known:
            missing.append(name)
            continue
        version = known[_normal(name)][1]
        say(f"Requirement already satisfied: {word} ({version}; there is no other version)")
    if missing:
        there = ", ".join(sorted(name for name, _ in known.values()))
        for name in missing:
            say(f"ERROR: No matching distribution found for {name}")
        say(f"Packages cannot be installed here. These are there: {there}")
    return 1 if missing else 0


def _distributions():
    """Name and version of every distribution, by normalized name."""
    from importlib.metadata import distributions

    found = {}
    for one in distributions():
        name = one.metadata["Name"]
        if name:
            found.setdefault(_normal(name), (name, one.version))
    return found


def _normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def _ls(words, say):
    shown = [word for word in words if not word.startswith("-")] or ["."]
    hidden = any(word.startswith("-") and "a" in word for word in words)
    for path in shown:
        if os.path.isdir(path):
            if len(shown) > 1:
                say(f"{path}:")
            names = sorted(os.listdir(path))
            for name in names:
                if hidden or not name.startswith("."):
                    say(name)
        else:
            os.stat(path)
            say(path)


def _cat(words, say):
    for path in words:
        with open(path, encoding="utf-8", errors="replace") as file:
            say(file.read().removesuffix("\n"))


def _echo(words, say):
    say(" ".join(words[1:] if words[:1] == ["-n"] else words))


def _pwd(words, say):
    say(os.getcwd())


_COMMANDS = {"pip": _pip, "pip3": _pip, "ls": _ls, "cat": _cat, "echo": _echo, "pwd": _pwd}


def _cd(line):
    os.chdir(os.path.expanduser(line.strip().strip("'\"")) or "/workspace")
    print(os.getcwd())


def _env(line):
    name, equals, value = line.partition("=")
    name = name.strip()
    if not name:
        return dict(os.environ)
    if not equals and " " in name:
        name, _, value = name.partition(" ")
    if not equals and not value:
        return os.environ.get(name)
    os.environ[name] = value.strip()
    print(f"env: {name}={value.strip()}")
    return None


def _compiled(text):
    """The code in a magic's line, at that line."""
    line = sys._getframe(3).f_lineno
    return sources.translate("\n" * (line - 1) + text, "none")


def _time(line):
    if not line:
        return None
    try:
        code, is_value = compile(line, sources.FILENAME, "eval"), True
    except SyntaxError:
        code, is_value = _compiled(line), False
    clock = _Clock()
    run = eval if is_value else exec
    value = run(code, namespaces.GLOBALS)
    clock.tell()
    return value


class _Clock:
    def __init__(self):
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def tell(self):
        cpu, wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        print(f"CPU times: total: {_span(cpu)}\nWall time: {_span(wall)}")


def _timeit(line):
    options, words = _options(line.split())
    code = _compiled(" ".join(words) if options else line)
    return measure(lambda: exec(code, namespaces.GLOBALS), options)


def _options(words):
    """The options before the code, and its words."""
    options, words = {}, list(words)
    while words and words[0][:2] in ("-n", "-r", "-q", "-o", "-p"):
        word = words.pop(0)
        name, value = word[1:2], word[2:]
        if name in "nrp" and not value and words:
            value = words.pop(0)
        options[name] = value
    return options, words


def measure(func, options=None):
    """Call `func` many times and report the time."""
    options = options or {}
    loops, repeats = _whole(options.get("n")), _whole(options.get("r")) or _REPEATS
    clock, before = time.perf_counter, 0.0

    def timed(number):
        start = clock()
        for _ in range(number):
            func()
        return clock() - start

    if not loops:
        loops = 1
        taken = timed(loops)
        # A deterministic clock, which moves only when it is read, gives the same result every time.
        while taken < _ENOUGH and loops < _LOOPS and taken > before * 1.5:
            loops, before = loops * 10, taken
            taken = timed(loops)
    each = [timed(loops) / loops for _ in range(repeats)]
    mean = sum(each) / len(each)
    deviation = (sum((one - mean) ** 2 for one in each) / len(each)) ** 0.5
    runs, of = ("run", "loop") if len(each) == 1 else ("runs", "loops")
    text = f"{_span(mean)} \u00b1 {_span(deviation)} per loop (mean \u00b1 std. dev. of"
    if "q" not in options:
        print(f"{text} {len(each)} {runs}, {loops:,} {of if loops > 1 else 'loop'} each)")
    return each if "o" in options else None


def _whole(text):
    return max(int(text), 1) if text and text.isdecimal() else None


def _span(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _who(line):
    names = _names()
    print("  ".join(names) if names else "Interactive namespace is empty.")


def _whos(line):
    print("Variable   Type       Data/Info\n------------------------------")
    for name in _names():
        value = namespaces.GLOBALS[name]
        print(f"{name:<10} {type_name(type(value)):<10} {repr(value)[:60]}")


def _names():
    hidden = ("In", "Out")
    return sorted(n for n in namespaces.GLOBALS if n[:1] != "_" and n not in hidden)


def _info(line):
    name = line.lstrip("%")
    try:
        value = eval(name, namespaces.GLOBALS)  # noqa: S307 (it is the code's own)
    except Exception:
        print(f"Object `{name}` not found.")
        return
    import inspect

    if callable(value):
        try:
            print(f"Signature: {name}{inspect.signature(value)}")
        except (TypeError, ValueError):
            pass
    print(f"Type:      {type_name(type(value))}")
    if not callable(value):
        print(f"String form: {str(value)[:500]}")
    print(f"Docstring: {inspect.getdoc(value) or '<no docstring>'}")


def _execute_file(line):
    words = shlex.split(line)
    path = next(word for word in words if not word.startswith("-"))
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    exec(code, namespaces.GLOBALS)


def _reset(line):
    for name in _names():
        namespaces.GLOBALS.pop(name, None)


def _command(name):
    return lambda line: _SHELL.system(f"{name} {line}".strip())


def _history(line):
    print("\n".join(_STATE.inputs[1:-1]))


_LINE_MAGICS = {
    "cat": _command("cat"),
    "cd": _cd,
    "conda": _command("pip"),
    "env": _env,
    "hist": _history,
    "history": _history,
    "ls": _command("ls"),
    "lsmagic": lambda line: print(" ".join(f"%{name}" for name in sorted(_LINE_MAGICS))),
    "mamba": _command("pip"),
    "pinfo": _info,
    "pinfo2": _info,
    "pip": _command("pip"),
    "pwd": lambda line: os.getcwd(),
    "reset": _reset,
    "run": _execute_file,
    "set_env": _env,
    "sx": lambda line: _SHELL.getoutput(line),
    "system": lambda line: _SHELL.getoutput(line),
    "time": _time,
    "timeit": _timeit,
    "uv": _command("uv"),
    "who": _who,
    "who_ls": lambda line: _names(),
    "whos": _whos,
}
_BUILTINS = vars(sys.modules["builtins"])
_SHELL = Shell()


def around(name, line):
    """The wrapper with which a cell magic runs the code below it, or None."""
    found = _AROUND.get(name)
    return None if found is None else lambda run: found(run, line)


def _timed_cell(run, line):
    clock = _Clock()
    try:
        run()
    finally:
        clock.tell()


def _measured_cell(run, line):
    measure(run, _options(line.split())[0])


def _captured_cell(run, line):
    import io

    out, err = io.StringIO(), io.StringIO()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        run()
    finally:
        sys.stdout, sys.stderr = before
    words = [word for word in line.split() if not word.startswith("-")]
    if words:
        namespaces.GLOBALS[words[0]] = Captured(out.getvalue(), err.getvalue())


# Cell magics whose body is the run's own code.
_AROUND = {
    "capture": _captured_cell,
    "prun": _timed_cell,
    "time": _timed_cell,
    "timeit": _measured_cell,
}


class Captured:
    """Output captured by `%%capture`."""

    def __init__(self, stdout, stderr):
        self.stdout, self.stderr = stdout, stderr

    def __str__(self):
        return self.stdout

    def __call__(self):
        self.show()

    def show(self):
        """Write it now."""
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
