"""Decides which walls a program broke, from external observations."""

from dataclasses import dataclass, field

from .observe import Held
from .place import ENVIRONMENT_SECRET

MIB = 1 << 20
# The limits requested from a target. Targets without a limit are judged by the same bounds.
ASKED = {"memory_mib": 128, "output_bytes": 64 << 10, "workspace_mib": 16, "files": 200}
# The bounds for broken walls: several times the requested limits, because a target has overhead.
BOUNDS = {
    "memory": 512 * MIB,
    "disk": 64 * MIB,
    "descriptors": 200,
    "processes": 45,
    "output": 8 * MIB,
    "tool_calls": 100,
}


@dataclass
class Answer:
    """A target's answer for one part of a program, in a common format."""

    ended: str = "none"  # ok, error, timeout, memory, output, crash, refused, waiting; none
    stdout: str = ""
    guest: str = ""  # all text that the program may have chosen
    host: str = ""  # everything else in the answer
    error: str = ""
    size: int = 0
    seconds: float = 0
    unreadable: str = ""  # why the answer could not be read
    tool_calls: int = 0
    bad_tool_calls: int = 0


@dataclass
class Seen:
    """All observations of one program's run."""

    answers: list = field(default_factory=list)  # one for each part
    died: str = ""  # how the process that hosts programs ended, where it should have lived
    said: str = ""  # what else came out of the target
    contacts: int = 0
    held: Held = None  # above what the target held before; None: others ran at the same time
    neighbour: str = "42\n"  # what an honest program printed afterwards, and should


def judge(program, place, seen, slack):
    """The broken walls: name and evidence."""
    broken = {}
    attacks = [a for a, part in zip(seen.answers, program.parts) if part.who == "attacker"]
    text = "\n".join(a.guest + a.host + a.stdout for a in attacks)
    text += seen.said + place.copied_text()
    for secret in (place.secret, ENVIRONMENT_SECRET, "hostile-secret-found"):
        if secret in text:
            broken["secret"] = "the answer has " + secret[:20]
    if spoiled := place.spoiled():
        broken["outside"] = spoiled
    if seen.contacts:
        broken["contact"] = f"{seen.contacts} contacts"
    late = max((a.seconds for a in seen.answers), default=0)
    if late > program.timeout + slack:
        broken["time"] = f"{late:.1f} s, allowed were {program.timeout}"
    if seen.held:
        for name in ("memory", "disk", "descriptors", "processes"):
            value = getattr(seen.held, name)
            if value > BOUNDS[name]:
                broken[name] = f"{value // MIB} MiB" if BOUNDS[name] > MIB else str(value)
    size = sum(a.size for a in seen.answers)
    if size > BOUNDS["output"]:
        broken["output"] = f"{size // MIB} MiB"
    if seen.died:
        broken["alive"] = seen.died
    elif seen.neighbour != "42\n":
        broken["alive"] = f"afterwards: {seen.neighbour[:200]!r}"
    for answer in seen.answers:
        if answer.unreadable:
            broken["answer"] = answer.unreadable
        elif answer.ended == "none" and "time" not in broken:
            broken["answer"] = "there is none"
        if place.mark in answer.host:
            broken["truth"] = f"the mark is in what the host says: {_around(answer.host, place.mark)}"
        if answer.tool_calls > BOUNDS["tool_calls"]:
            broken["tools"] = f"{answer.tool_calls} calls"
        elif answer.bad_tool_calls:
            broken["tools"] = f"{answer.bad_tool_calls} calls against the schema"
    if len(seen.answers) < len(program.parts) and "time" not in broken:
        broken.setdefault("answer", "there is none")
    if attacks and attacks[0].ended in program.never:
        broken["truth"] = f"it is said to have ended as {attacks[0].ended}"
    if program.then_prints and len(seen.answers) == len(program.parts):
        last = seen.answers[-1]
        if last.stdout.strip() != program.then_prints.strip():
            broken["others"] = f"{last.ended}, printed {last.stdout[:100]!r} {last.error[:100]}"
    elif program.then_prints:
        broken["others"] = "no answer"
    return broken


# Errors that mean that a feature is missing, not that an attack was stopped.
LACKING = (
    "ModuleNotFoundError", "ImportError", "SyntaxError", "NotImplementedError", "NotImplemented",
    "no attribute", "not supported", "not implemented", "is not defined", "not allowed", "Forbidden",
)


def lacks(seen):
    """The features that the target lacks for the program; empty if it reached its attack."""
    for answer in seen.answers:
        if answer.ended in ("error", "refused") and any(word in answer.error for word in LACKING):
            return answer.error.strip().splitlines()[-1][:160]
    return ""


def _around(text, mark):
    at = text.index(mark)
    return text[max(0, at - 40) : at + 40]
