"""`belljar serve`: one server for all programs, with a key for the attacker and for the victim."""

import http.client
import json
import os
import subprocess
import tempfile
import threading
import time
import urllib.parse
from contextlib import nullcontext
from pathlib import Path

from ..judge import Answer, Seen
from ..observe import Listener, Watch
from ..place import ENVIRONMENT_SECRET, Place
from ..program import filled
from . import belljar


class Server:
    def __init__(self, options):
        self.binary = options.belljar
        self.slack = options.slack
        self.more = getattr(options, "serve", [])
        self.log = getattr(options, "log", None) or os.devnull
        self.starting = threading.Lock()
        self.process = None

    def start(self):
        shown = subprocess.run([self.binary, "--version"], capture_output=True, text=True, check=True)
        self.version = shown.stdout.strip()
        subprocess.run([self.binary, "setup"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        self.directory = tempfile.TemporaryDirectory(prefix="hostile-server-")
        keys = Path(self.directory.name, "keys.toml")
        make = [self.binary, "key", "--keys", str(keys)]
        self.keys = {
            who: subprocess.run([*make, who, *more], capture_output=True, text=True, check=True).stdout.split()[0]
            for who, more in (("attacker", ()), ("victim", ()), ("operator", ("--operator",)))
        }
        self._launch(keys)
        for code in ("print(6 * 7)", "import pandas", "import matplotlib.pyplot, sqlite3"):
            self._ask("victim", "POST", "/v1/runs", {"code": code, "timeout": 30})

    def _launch(self, keys):
        environment = os.environ | {"HOSTILE_SECRET": ENVIRONMENT_SECRET, "TMPDIR": self.directory.name}
        state = Path(self.directory.name, "state")
        command = ["serve", "--json", "--listen=127.0.0.1:0", f"--keys={keys}", f"--state={state}", *self.more]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, *command],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment,
            )
        ready = json.loads(self.process.stdout.readline())
        self.address = urllib.parse.urlsplit(ready["url"]).netloc

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.directory.cleanup()

    def attack(self, program, alone):
        with self.starting:
            if self.process.poll() is not None:  # An earlier program ended it, and was told.
                self._launch(Path(self.directory.name, "keys.toml"))
        listener = Listener()
        place = Place(listener)
        listener.also(place.base / "socket")
        seen, sessions = Seen(), {}
        try:
            # Looking takes time of the processors.
            with Watch(self.process.pid, place) if alone else nullcontext() as watch:
                for part in program.parts:
                    seen.answers.append(self._part(place, program, part, sessions))
                if program.name.startswith("processes/"):
                    time.sleep(0.8)
            if alone:
                seen.held = watch.growth()
            for who, session in sessions.items():
                self._ask(who, "DELETE", f"/v1/sessions/{session}")
            status, _, text = self._ask("victim", "POST", "/v1/runs", belljar.HONEST)
            seen.neighbour = belljar.answer(text, 0).stdout if status == 200 else f"status {status}"
            if self.process.poll() is not None:
                seen.died = f"the server ended with {self.process.returncode}"
            seen.contacts = listener.contacts
            return place, seen
        finally:
            listener.close()

    def _part(self, place, program, part, sessions):
        asked = belljar.request(program, filled(part.code, place))
        victim_stays = any(p.who == "victim" for p in program.parts[:-1])
        if program.tools:
            return belljar.with_tools(program, asked, lambda r: self._run(place, part.who, "/v1/runs", r, program))
        path = "/v1/runs"
        if program.session or (part.who == "victim" and victim_stays):
            if part.who not in sessions:
                limits = {k: asked[k] for k in ("memory_mb", "workspace_mb", "max_files")}
                image = {"image": "data"} if program.needs else {}
                status, _, text = self._ask(part.who, "POST", "/v1/sessions", limits | image)
                if status >= 300:
                    return Answer(unreadable=f"no session: {status} {text[:300]!r}")
                sessions[part.who] = json.loads(text)["id"]
            path = f"/v1/sessions/{sessions[part.who]}/runs"
            asked = {k: asked[k] for k in ("code", "timeout", "output_bytes")}
        one = self._run(place, part.who, path, asked, program)[0]
        if program.suspend and part.who == "attacker":
            status, _, text = self._ask("attacker", "POST", path.replace("/runs", "/suspend"), {})
            if status >= 500:
                one.unreadable = f"suspend: {status} {text[:200]!r}"
        return one

    def _run(self, place, who, path, asked, program):
        began = time.monotonic()
        status, headers, text = self._ask(who, "POST", path, asked, program.timeout + self.slack + 5)
        seconds = time.monotonic() - began
        if status != 200:
            ended = "refused" if 400 <= status < 500 else "none"
            unreadable = f"status {status}: {text[:200]!r}" if ended == "none" else ""
            return Answer(ended, seconds=seconds, error=text.decode(errors="replace"), unreadable=unreadable), {}
        one = belljar.answer(text, seconds)
        if one.unreadable:
            return one, {}
        outcome = json.loads(text)
        one.host += json.dumps(headers)
        if who == "attacker":
            one.host += self._files(place, who, path, outcome)
        return one, outcome

    def _files(self, place, who, path, outcome):
        """Downloads the run's files by the names in the answer. Returns the missing ones, and the
        headers.
        """
        base = f"/v1/runs/{outcome['run']}" if "run" in outcome else path.removesuffix("/runs")
        missing = []
        for number, file in enumerate(outcome["files"][:20]):
            url = f"{base}/files/{urllib.parse.quote(file['path'])}"
            status, headers, content = self._ask(who, "GET", url)
            (place.out / str(number)).write_bytes(content[: 1 << 20])
            missing += [name for name, _ in headers]  # The program may have put some there.
            if status != 200:
                missing.append(f"{file['path']} is listed, and {status}")
        plots = {plot["path"] for plot in outcome["plots"]} - {file["path"] for file in outcome["files"]}
        return json.dumps(missing + [f"{path} is a plot and no file" for path in plots])

    def _ask(self, who, method, path, body=None, patience=60):
        connection = http.client.HTTPConnection(self.address, timeout=patience)
        headers = {"Authorization": f"Bearer {self.keys[who]}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read(64 << 20)
        except (OSError, http.client.HTTPException) as error:
            return 599, [], f"{type(error).__name__}: {error}".encode()
        finally:
            connection.close()
