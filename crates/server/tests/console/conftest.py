"""A running `belljar serve`, and Chromium to open its console.

BELLJAR names the command, BELLJAR_CHROMIUM the browser, and BELLJAR_CHROMIUM_LIBRARIES the
directories with its libraries, separated by colons.
"""

import json
import os
import signal
import subprocess
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target"))
COMMAND = os.environ.get("BELLJAR", str(TARGET / "release" / "belljar"))
# Milliseconds that the page has for what a test waits for, on a busy machine.
PATIENCE = 20_000


@dataclass
class Server:
    """Where a server is reached, and the key to it."""

    url: str
    key: str | None
    process: subprocess.Popen = field(repr=False)

    def ask(self, method, path, body=None):
        """Sends JSON and returns the JSON of the answer."""
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 0


def start(*arguments):
    """Starts a server on a free port, and waits until it is ready."""
    command = [COMMAND, "serve", "--listen", "127.0.0.1:0", "--json", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{command} ended with status {process.wait()}")
    ready = json.loads(line)
    return Server(ready["url"], ready["key"], process)


@pytest.fixture(scope="session")
def server():
    """A server that needs a key."""
    started = start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def open_server():
    """A server that needs no key."""
    started = start("--no-auth")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def browser():
    libraries = os.environ.get("BELLJAR_CHROMIUM_LIBRARIES")
    environment = {**os.environ, **({"LD_LIBRARY_PATH": libraries} if libraries else {})}
    with sync_playwright() as playwright:
        # The sandbox of Chromium needs a user other than root.
        arguments = ["--disable-gpu", "--disable-dev-shm-usage"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
        started = playwright.chromium.launch(
            executable_path=os.environ["BELLJAR_CHROMIUM"], args=arguments, env=environment
        )
        yield started
        started.close()


class Console:
    """A page of the console in a browser, that notes what it should not do."""

    def __init__(self, browser, server, path="/", key=True, **context):
        self.server = server
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.errors, self.requests = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request))
        if key and server.key:
            # As after the form of the key: it is kept in the tab.
            stored = f"sessionStorage.setItem('belljar.key', {json.dumps(server.key)})"
            # Sandboxed frames have no storage.
            self.context.add_init_script(f"if (self === top) {stored}")
        self.page.goto(server.url + path)

    def go(self, name):
        """Shows a page of the console."""
        self.page.click(f"nav a[href='#/{name}']")
        self.page.wait_for_selector(f"nav a[href='#/{name}'][aria-current]")
        return self.page

    def run(self, code, ends=True):
        """Runs code at the prompt of the page in sight, and returns what was shown of it."""
        prompt = self.page.locator(".prompt").last
        prompt.locator("textarea.code").first.fill(code)
        prompt.locator("textarea.code").first.press("Control+Enter")
        shown = prompt.locator(".run").first
        shown.wait_for()
        if ends:
            shown.locator(".outcome p").first.wait_for()
        return shown

    def frames(self, work):
        """Does `work`, and returns milliseconds between the frames that were drawn meanwhile."""
        self.page.evaluate(
            """() => {
                window.gaps = [];
                let last = performance.now();
                const draw = (now) => { gaps.push(now - last); last = now; window.drawing = requestAnimationFrame(draw); };
                window.drawing = requestAnimationFrame(draw);
            }"""
        )
        work()
        return self.page.evaluate("() => { cancelAnimationFrame(drawing); return gaps.slice(1); }")

    def close(self):
        self.context.close()


@pytest.fixture
def console(browser, server):
    """The console of a server whose key is known."""
    opened = Console(browser, server)
    yield opened
    opened.close()
    assert opened.errors == []


@pytest.fixture
def session(server):
    """A session with five runs, the last of which fails."""
    made = server.ask("POST", "/v1/sessions", {"image": "core"})["id"]
    codes = ["total = 1", "open('notes.txt', 'w').write('one')", "total += 41", "words = ['a']", "1 / 0"]
    for code in codes:
        server.ask("POST", f"/v1/sessions/{made}/runs", {"code": code})
    yield made
    # Tests fork it.
    for one in server.ask("GET", "/v1/sessions")["sessions"]:
        server.ask("DELETE", f"/v1/sessions/{one['id']}")
