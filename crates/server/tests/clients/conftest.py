"""A started `belljar serve`, for tests with the clients that people use.

BELLJAR names the command; the default is in target/release. The server inherits the environment,
such as BELLJAR_CACHE and BELLJAR_WHEEL.
"""

import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[4]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target"))
COMMAND = os.environ.get("BELLJAR", str(TARGET / "release" / "belljar"))


@dataclass
class Server:
    """Where a server is reached, and the key to it."""

    url: str
    key: str | None
    process: subprocess.Popen = field(repr=False)

    @property
    def host(self):
        return self.url.removeprefix("http://")

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    @property
    def headers(self):
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def stop(self):
        """Ends it as a service manager does, and says how it ended."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


def start(*arguments, **how):
    """Starts a server with all interfaces on a free port. `how` are keywords of `Popen`."""
    faces = [] if "--faces" in arguments else ["--faces", "all"]
    command = [COMMAND, "serve", "--listen", "127.0.0.1:0", "--json", *faces, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **how)
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{command} ended with status {process.wait()}")
    ready = json.loads(line)
    return Server(ready["url"], ready["key"], process)


def object_store(kind):
    """Starts a server that emulates a store: `url`, `environment` and `stop`."""
    if kind == "s3":
        return pytest.importorskip("s3_server").S3()
    azure_server = pytest.importorskip("azure_server")
    if not azure_server.IS_THERE:
        pytest.skip("node, or its packages (npm ci in js/azurite), are not there")
    return azure_server.Azure()


@pytest.fixture(scope="session")
def server():
    """A server whose clients need its key."""
    started = start()
    yield started
    assert started.stop() == 0


@pytest.fixture(params=["legacy", "auto"])
def mode(request):
    """How an MCP client begins: with revision 2025-11-25, or by discovering the newest revision."""
    return request.param


@pytest.fixture(scope="session")
def open_server():
    """A server that needs no key."""
    started = start("--no-auth")
    yield started
    assert started.stop() == 0
