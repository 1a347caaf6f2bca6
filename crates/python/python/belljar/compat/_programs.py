"""Python programs in place of a shell's commands, for frameworks whose sandboxes have a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

ROOT = "/workspace"
_HERE_DOCUMENT = re.compile(r"""\s*(python3?)[^\n<]*<<\s*(['"]?)(\w+)\2\n(.*)\n\3\s*""", re.DOTALL)
_NO_SHELL = f"""there is no shell. Commands are, in {ROOT} or after `cd DIR &&`:
python FILE [ARGUMENTS], python -m MODULE [ARGUMENTS], python -c CODE, python - <<'END'
"""
# Each command begins without the modules that earlier ones imported from files, which may have
# changed since.
_COMMAND = """\
import os, runpy, sys
sys.argv, _path = {argv!r}, sys.path[:]
sys.path.insert(0, {directory!r} or os.getcwd())
try:
    {call}
finally:
    sys.path[:] = _path
    for _name, _module in list(sys.modules.items()):
        if str(getattr(_module, "__file__", None)).startswith({root!r}):
            del sys.modules[_name]
"""


@dataclass(frozen=True)
class Program:
    """A Python program: its directory and arguments, and the statement that runs it."""

    cwd: str
    argv: list[str]
    call: str

    def code(self) -> str:
        """The code that runs it in a session."""
        name = self.argv[0]
        directory = str(PurePosixPath(self.cwd, name).parent) if name.endswith(".py") else ""
        return _COMMAND.format(argv=self.argv, directory=directory, call=self.call, root=f"{ROOT}/")


def program_of(command: str, cwd: str = ROOT, stdin: str | bytes | None = None) -> Program:
    """The program that a command of a shell starts. `python -` reads its code from `stdin`.

    Raises:
        ValueError: if a shell is needed.
    """
    if found := _HERE_DOCUMENT.fullmatch(command):
        return Program(cwd, ["-"], _exec(found[4]))
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise ValueError(f"{error}: {_NO_SHELL}") from error
    if words[:1] == ["cd"] and words[2:3] == ["&&"]:
        cwd, words = str(PurePosixPath(cwd, words[1])), words[3:]
    if any(set(word) <= set("();<>|&") for word in words):
        raise ValueError(_NO_SHELL)
    return program_with(words, cwd, stdin)


def program_with(
    words: Sequence[str], cwd: str = ROOT, stdin: str | bytes | None = None
) -> Program:
    """The program of a command whose words are known."""
    if len(words) < 2 or words[0] not in ("python", "python3"):
        raise ValueError(_NO_SHELL)
    match list(words[1:]):
        case ["-", *rest] if stdin is not None:
            return Program(cwd, ["-", *rest], _exec(stdin))
        case ["-c", code, *rest]:
            return Program(cwd, ["-c", *rest], _exec(code))
        case ["-m", module, *rest]:
            call = f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
            return Program(cwd, [module, *rest], call)
        case [file, *rest] if not file.startswith("-"):
            return Program(cwd, [file, *rest], f"runpy.run_path({file!r}, run_name='__main__')")
    raise ValueError(_NO_SHELL)


def inside(path: str) -> str:
    """A path for `Session.files`."""
    if path.rstrip("/") == ROOT:
        return ""
    inner = PurePosixPath(path)
    if ".." in inner.parts or not inner.is_relative_to(ROOT):
        raise ValueError(f"{path!r} is not below {ROOT}, where all files are")
    return str(inner.relative_to(ROOT))


def _exec(code: str | bytes) -> str:
    return f"exec(compile({code!r}, '<string>', 'exec'), {{'__name__': '__main__'}})"
