"""Rewrites IPython's input dialect to Python line by line, keeping line numbers.

Only lines that can begin a statement are examined: not those inside brackets or strings, or after a
backslash. At these places no Python begins with `%` or `!` or ends with `?`, so Python itself is
never changed.
"""

import re

_NAME = r"[A-Za-z_][A-Za-z_0-9]*"
_ASSIGNED = re.compile(rf"(\s*{_NAME}(?:\s*[,.]\s*{_NAME})*\s*=\s*)([!%])(?![=])(.*)", re.DOTALL)
_MAGIC = re.compile(rf"({_NAME})\s*(.*)", re.DOTALL)
_HELP = re.compile(rf"\??\??\s*(%{{0,2}}{_NAME}(?:\.{_NAME})*)\s*\?{{0,2}}")
_TRIPLE = ('"""', "'''")
_OPEN, _CLOSE = "([{", ")]}"


def split_cell(code):
    """The name and argument of the cell magic at the start of the code, and its body.

    The body begins with an empty line in place of the magic. None for any other code.
    """
    lead = len(code) - len(code.lstrip())
    if not code.startswith("%%", lead):
        return None
    first, _, body = code[lead:].partition("\n")
    match = _MAGIC.fullmatch(first[2:].strip())
    if match is None:
        return None
    return match.group(1), match.group(2), "\n" * code.count("\n", 0, lead) + "\n" + body


def rewrite(code):
    """The code in Python, with the same number of lines."""
    if not any(mark in code for mark in "%!?"):
        return code
    lines = [f"{line}\n" for line in code.split("\n")]
    state = _State()
    index = 0
    while index < len(lines):
        if not state.is_between():
            state.read(lines[index])
            index += 1
            continue
        end = index + 1
        line = lines[index]
        if _is_special(line):
            # Such a line continues after a backslash.
            while line.rstrip("\r\n").endswith("\\") and end < len(lines):
                line = f"{line.rstrip()[:-1].rstrip()} {lines[end].lstrip()}"
                end += 1
        found = _python(line)
        if found is None:
            state.read(lines[index])
            index += 1
            continue
        lines[index] = found + "\n" * (end - index)
        lines[index + 1 : end] = [""] * (end - index - 1)
        index = end
    return "".join(lines).removesuffix("\n")


def _is_special(line):
    return line.lstrip()[:1] in ("%", "!") or _ASSIGNED.match(line) is not None


def _python(line):
    """The Python for a line that begins a statement, or None if it is Python already."""
    text = line.strip()
    indent = line[: len(line) - len(line.lstrip())].strip("\r\n")
    if text[:1] == "%":
        match = _MAGIC.fullmatch(text.lstrip("%"))
        return None if match is None else f"{indent}{_line_magic(*match.groups())}"
    if text[:1] == "!":
        return f"{indent}get_ipython().system({text.lstrip('!').strip()!r})"
    if text[:1] == "?" or text[-1:] == "?":
        match = _HELP.fullmatch(text)
        if match is not None:
            return f"{indent}{_line_magic('pinfo', match.group(1))}"
        return None
    match = _ASSIGNED.fullmatch(line.rstrip("\r\n"))
    if match is None:
        return None
    target, kind, rest = match.groups()
    if kind == "!":
        return f"{target}get_ipython().getoutput({rest.strip()!r})"
    match = _MAGIC.fullmatch(rest.strip())
    return None if match is None else f"{target}{_line_magic(*match.groups())}"


def _line_magic(name, rest):
    return f"get_ipython().run_line_magic({name!r}, {rest.strip()!r})"


class _State:
    """The state of a statement: open brackets and strings, and a backslash at the end."""

    __slots__ = ("continued", "depth", "string")

    def __init__(self):
        self.depth = 0
        self.string = None
        self.continued = False

    def is_between(self):
        return not self.depth and self.string is None and not self.continued

    def read(self, line):
        self.continued = False
        index, size = 0, len(line.rstrip("\r\n"))
        while index < size:
            index = self._step(line, index, size)
        if self.string is not None and len(self.string) == 1 and not self.continued:
            self.string = None  # not Python; the compiler will say so

    def _step(self, line, index, size):
        char = line[index]
        if self.string is not None:
            if char == "\\":
                self.continued = index + 1 >= size and len(self.string) == 1
                return index + 2
            if line.startswith(self.string, index):
                index += len(self.string)
                self.string = None
                return index
            return index + 1
        if char == "#":
            return size
        if char == "\\" and index + 1 >= size:
            self.continued = True
        elif char in "\"'":
            triple = line[index : index + 3]
            self.string = triple if triple in _TRIPLE else char
            return index + len(self.string)
        elif char in _OPEN:
            self.depth += 1
        elif char in _CLOSE:
            self.depth = max(self.depth - 1, 0)
        return index + 1
