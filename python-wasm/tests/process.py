"""Runs of the runner in a separate process, as requested by the host."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import driver

HERE = pathlib.Path(__file__).parent


def request(code, cwd, **changes):
    """A request with every key, changed as the test needs."""
    order = {
        "version": 1,
        "code": code,
        "echo": "none",
        "result_var": None,
        "threads": "in_place",
        "env": {},
        "argv": ["<string>"],
        "run_env": {},
        "cwd": str(cwd),
        "workspace": [str(cwd)],
        "entropy": "0123456789abcdef" * 4,
        "deterministic": None,
        "policy": None,
        "dedent": True,
        "figures": {"capture": True, "format": "png", "dpi": None, "max": 20},
        "frames": {"capture": True, "max_repr_chars": 10_000, "table_rows": None},
        "value": {"max_depth": 32, "max_items": 1_000, "max_bytes": 100_000},
        "packages": [],
        "session": False,
        "check": False,
    }
    return {**order, **changes}


class Ended:
    """The results of one process with one or more runs."""

    def __init__(self, out, err, frames):
        self.stdout = out.decode()
        self.stderr = err.decode()
        self.frames = frames

    def of(self, op, run=0):
        return [payload for number, name, payload in self.frames if name == op and number == run]

    def status(self, run=0):
        (only,) = self.of("s", run)
        return only

    def value(self, run=0):
        (only,) = self.of("v", run)
        return only["value"]

    def ended(self, run=0):
        return [name for number, name, _ in self.frames if number == run][-1:] == ["e"]


class Runs:
    """Starts processes whose runs share a workspace."""

    def __init__(self, folder):
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self._folder = folder

    def request(self, code, **changes):
        return request(code, self.workspace, **changes)

    def __call__(self, code, **changes):
        return self.of([self.request(code, **changes)])

    def session(self, *codes, **changes):
        return self.of([self.request(code, session=True, **changes) for code in codes])

    def of(self, requests, bake="", stdin=b"", seal=True, interrupt_when=None):
        """Run them in one process; SIGINT is sent when the path `interrupt_when` exists."""
        spec = self._folder / "spec.json"
        lines = [json.dumps(one) for one in requests]
        spec.write_text(json.dumps({"requests": lines, "bake": bake, "seal": seal}))
        frames = self._folder / "frames"
        with frames.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, "-c", "import driver; driver.main()", str(spec)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(HERE), "MPLBACKEND": "Agg"},
                preexec_fn=lambda: os.dup2(sink.fileno(), driver.FRAMES),
                close_fds=False,
            )
        if interrupt_when is not None:
            _interrupt(process, interrupt_when)
        out, err = process.communicate(stdin, timeout=60)
        return Ended(out, err, [_frame(line) for line in frames.read_bytes().splitlines()])


def _interrupt(process, path):
    deadline = time.monotonic() + 20
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)


def _frame(line):
    number, op, payload = line.split(b" ", 2)
    return int(number), op.decode(), json.loads(payload)
