"""Formats exceptions as IPython does, with the same frames as usual."""

import linecache

from _belljar.protocol.inspecting import type_name
from _belljar.source import sources, tracebacks

_WIDTH = 75
_NUMBERS = 7  # characters that a line's number takes
_AROUND = 2  # lines before and after the current one
_FRAMES = 50
_HEAD = "Traceback (most recent call last)"
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_POSITIONAL, _KEYWORD = 0x04, 0x08  # CO_VARARGS, CO_VARKEYWORDS


def render(error, number):
    """The text for an exception that ended the cell `number`."""
    parts = []
    for one, follows in _chain(error):
        if follows:
            parts.append(f"{follows}\n\n")
        parts.append(_block(one, number))
    return "\n".join(parts)


def _chain(error):
    """The chain of exceptions, each with the text that links it to the one before."""
    chain = [(error, None)]
    while len(chain) < 8:
        cause, context = tracebacks.before(chain[-1][0])
        earlier = cause if cause is not None else context
        if earlier is None or any(earlier is one for one, _ in chain):
            break
        chain[-1] = (chain[-1][0], _CAUSE if cause is not None else _CONTEXT)
        chain.append((earlier, None))
    return list(reversed(chain))


def _block(error, number):
    last = tracebacks.last_lines(error)
    frames = list(_frames(error))
    if not frames and last.startswith("  File "):
        place, newline, rest = last.partition("\n")
        ours = f'  File "{sources.FILENAME}"'
        if place.startswith(ours):
            place = f"  Cell In[{number}]{place.removeprefix(ours)}"
        return f"{place}{newline}{rest}"
    name = type_name(type(error))
    head = f"{'-' * _WIDTH}\n{name}{_HEAD.rjust(max(_WIDTH - len(name), len(_HEAD) + 1))}\n"
    return f"{head}{''.join(_shortened(frames))}{last}"


def _shortened(frames):
    if len(frames) <= _FRAMES:
        return frames
    half = _FRAMES // 2
    gone = f"    [... {len(frames) - _FRAMES} frames left out ...]\n\n"
    return [*frames[:half], gone, *frames[-half:]]


def _frames(error):
    trace = tracebacks.outermost(error)
    while trace is not None:
        code, line = trace.tb_frame.f_code, trace.tb_lineno
        trace = trace.tb_next
        if tracebacks.OURS in code.co_filename or line is None:
            continue
        source = sources.source_of(code)
        called = "" if code.co_name == "<module>" else f", in {_signature(code)}"
        if source is not None:
            where = f"Cell In[{sources.number_of(code)}], line {line}{called}\n"
            lines = source.split("\n")
        else:
            where = f"File {code.co_filename}:{line}{called}\n"
            lines = linecache.getlines(code.co_filename)
        yield f"{where}{_context(code, lines, line)}\n"


def _signature(code):
    count = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[:count])
    for flag, stars in ((_POSITIONAL, "*"), (_KEYWORD, "**")):
        if code.co_flags & flag:
            names.append(stars + code.co_varnames[count])
            count += 1
    return f"{code.co_name}({', '.join(names)})"


def _context(code, lines, line):
    """The lines around the current one, within the function or the cell."""
    is_function = code.co_name != "<module>"
    first = max(line - _AROUND, code.co_firstlineno if is_function else 1)
    last = min(line + _AROUND, len(lines))
    if is_function:
        ends = [number for _, _, number in code.co_lines() if number is not None]
        last = min(last, max(ends, default=last))
    text = []
    for number in range(first, last + 1):
        content = lines[number - 1].rstrip("\r\n")
        if number == line:
            arrow = "-" * (_NUMBERS - len(str(number)) - 2)
            text.append(f"{arrow}> {number} {content}\n")
        elif content.strip():
            text.append(f"{number:>{_NUMBERS}} {content}\n")
    return "".join(text)
