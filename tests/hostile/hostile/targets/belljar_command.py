"""The command `belljar`: `run --json` for each part, with `--session` for several."""

import json
import os
import subprocess
import time

from ..judge import ASKED, Seen
from ..observe import Listener, Watch
from ..place import ENVIRONMENT_SECRET, Place
from ..program import filled
from . import belljar


class Command:
    def __init__(self, options):
        self.binary = options.belljar
        self.slack = options.slack

    def start(self):
        shown = subprocess.run([self.binary, "--version"], capture_output=True, text=True, check=True)
        self.version = shown.stdout.strip()
        subprocess.run([self.binary, "setup"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        place = Place()
        # Resources of the command itself, the baseline for judging.
        _, _, watch = self._run(place, [], "import pandas, matplotlib.pyplot, sqlite3; print(6 * 7)", 30)
        self.usual = watch.peak
        place.remove()

    def stop(self):
        pass

    def attack(self, program, alone):
        listener = Listener()
        place = Place(listener)
        listener.also(place.base / "socket")
        seen = Seen()
        try:
            for part in program.parts:
                one, died, watch = self._part(place, program, part)
                seen.answers.append(one)
                seen.died = seen.died or died
                if alone:
                    seen.held = watch.peak.above(self.usual)
            if program.name.startswith("processes/"):
                time.sleep(0.8)
            if program.aim in ("alive", "others"):
                outcome, _, _ = self._run(place, ["--timeout", "10"], "print(6 * 7)", 20)
                seen.neighbour = belljar.answer(outcome, 0).stdout
            seen.contacts = listener.contacts
            return place, seen
        finally:
            listener.close()

    def _part(self, place, program, part):
        code = filled(part.code, place)
        if program.tools:
            return self._tools(place, program, code)
        options = [
            f"--timeout={program.timeout}", f"--memory={ASKED['memory_mib']}",
            f"--output-limit={ASKED['output_bytes']}", f"--workspace-limit={ASKED['workspace_mib']}",
            f"--file-limit={ASKED['files']}", f"--out={place.out}",
        ]
        if program.session:
            # A session has its image from the start, and `auto` does not know what later code
            # needs.
            options.append(f"--session={place.base}/{part.who}.belljar")
        began = time.monotonic()
        output, died, watch = self._run(place, options, code, program.timeout + self.slack)
        one = belljar.answer(output, time.monotonic() - began)
        if not one.unreadable:
            outcome = json.loads(output)
            listed = {file["path"] for key in ("files", "plots") for file in outcome[key]}
            # A listed file that was not copied is a claim.
            one.host += json.dumps([path for path in listed if not os.path.lexists(place.out / path)])
        return one, died, watch

    def _run(self, place, options, code, patience):
        (place.base / "program.py").write_text(code)
        return self._process(place, ["run", "--json", *options, "../../program.py"], b"", patience)

    def _tools(self, place, program, code):
        died, watch = "", None

        def ask(asked):
            nonlocal died, watch
            began = time.monotonic()
            line = json.dumps(asked).encode()
            output, ended, watch = self._process(place, ["batch"], line, program.timeout + self.slack)
            died = died or ended
            one = belljar.answer(output, time.monotonic() - began)
            return one, {} if one.unreadable else json.loads(output)

        one = belljar.with_tools(program, belljar.request(program, code), ask)
        return one, died, watch

    def _process(self, place, arguments, stdin, patience):
        environment = os.environ | {"HOSTILE_SECRET": ENVIRONMENT_SECRET, "TMPDIR": str(place.base)}
        process = subprocess.Popen(
            [self.binary, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, cwd=place.box / "work", env=environment,
        )
        with Watch(process.pid, place) as watch:
            try:
                output, _ = process.communicate(stdin, timeout=patience + 5)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
        status = process.returncode
        died = f"status {status}" if status < 0 and status != -9 or status >= 3 else ""
        return output, died, watch
