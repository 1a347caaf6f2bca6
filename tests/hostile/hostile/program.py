"""Hostile programs, as in `programs/`."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "programs"
# The walls that a program may break. README.md describes how each is judged.
WALLS = (
    "secret", "outside", "contact", "time", "memory", "disk", "descriptors", "processes", "output",
    "alive", "answer", "truth", "others", "tools",
)
# The walls judged by the resources of the target's processes: such programs run one at a time.
MEASURED = {"memory", "disk", "descriptors", "processes"}
KEYS = {"aim", "tries", "control", "needs", "timeout", "session", "suspend", "tools", "never", "then_prints"}


@dataclass(frozen=True)
class Part:
    """A piece of the program: its code, and who runs it."""

    who: str  # "attacker", or "victim": another tenant
    code: str


@dataclass(frozen=True)
class Program:
    name: str
    aim: str
    tries: str
    parts: list
    control: str = ""
    needs: tuple = ()
    timeout: float = 2
    session: bool = False
    suspend: bool = False
    tools: bool = False
    never: tuple = ()
    then_prints: str = ""

    @property
    def alone(self):
        return self.aim in MEASURED or self.aim in ("alive", "others")


def read_all(patterns=()):
    programs = [read(path) for path in sorted(ROOT.glob("*/*.py"))]
    return [p for p in programs if not patterns or any(x in p.name for x in patterns)]


def read(path):
    name = f"{path.parent.name}/{path.stem}"
    lines = path.read_text().splitlines(keepends=True)
    ends = (i for i, line in enumerate(lines) if not line.startswith("# ") or line.startswith("# ---"))
    count = next(ends, len(lines))
    header = tomllib.loads("".join(line[2:] for line in lines[:count]))
    unknown = header.keys() - KEYS
    if unknown or header["aim"] not in WALLS:
        raise ValueError(f"{name}: {unknown or header['aim']}")
    # `# --- before` is the victim's first run, `again` the attacker's next run, `then` the
    # victim's.
    pieces = re.split(r"(?m)^# --- (before|attack|again|then)\n", "".join(lines[count:]))
    parts = [Part("attacker", pieces[0])] if pieces[0].strip() else []
    for word, code in zip(pieces[1::2], pieces[2::2], strict=True):
        parts.append(Part("victim" if word in ("before", "then") else "attacker", code))
    return Program(name=name, parts=parts, **header)


def filled(code, place):
    """The program's text with the places that it attacks."""
    for word, value in place.words().items():
        code = code.replace(f"@{word}@", value)
    return code
