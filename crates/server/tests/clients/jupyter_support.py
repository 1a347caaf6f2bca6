"""jupyter-server, started for tests."""

import os
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import httpx

TOKEN = "t"


@contextmanager
def jupyter_server(directory, **options):
    """The URL of a `jupyter server` that has a directory as its own, until it is left."""
    port = free_port()
    arguments = {
        "ServerApp.port": port,
        "ServerApp.root_dir": directory,
        "IdentityProvider.token": TOKEN,
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": True,
        **options,
    }
    command = [
        sys.executable,
        "-m",
        "jupyter_server",
        *(f"--{k}={v}" for k, v in arguments.items()),
    ]
    # The home stays, for a kernel finds its cache there.
    own = {f"JUPYTER_{kind}_DIR": str(directory / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    environment = {**os.environ, **own}
    jupyter = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(url))
        yield url
    finally:
        jupyter.terminate()
        jupyter.wait(timeout=30)


def free_port():
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


def answers(url):
    try:
        return httpx.get(f"{url}/api/status", params={"token": TOKEN}).status_code == 200
    except httpx.TransportError:
        return False


def wait_until(holds):
    for _ in range(400):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it never holds")
