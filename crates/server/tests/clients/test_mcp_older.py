"""Every minor release of the Python SDK before 2, over both transports, one call each."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import COMMAND

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("BELLJAR_CI_CACHE", Path.home() / ".cache" / "belljar-ci"))
RELEASES = (
    "1.6.0 1.7.1 1.8.1 1.9.4 1.10.1 1.11.0 1.12.4 1.13.1 1.14.1 1.15.0 1.16.0 1.17.0 1.18.0 1.19.0 "
    "1.20.0 1.21.2 1.22.0 1.23.3 1.24.0 1.25.0 1.26.0 1.27.2 1.28.1 1.29.1 1.30.0"
).split()
# What a client logs that did not understand something.
COMPLAINTS = ("Traceback", "WARNING", "ERROR")


# What all of them need. Older releases use parts of pydantic that its later ones do not have.
NEEDED = ("mcp==1.12.4", "pydantic==2.11.10", "pyjwt[crypto]==2.10.1")


def install(folder, *what):
    """Installs packages into a folder of their own, once."""
    if not folder.exists():
        made = folder.with_name(f"{folder.name}.{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
        subprocess.run([*pip, "--target", str(made), *what], check=True)
        made.rename(folder)


@pytest.fixture(scope="module")
def needed():
    folder = CACHE / "mcp" / "needed"
    install(folder, *NEEDED)
    return folder


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("release", RELEASES)
def test_one_call(needed, release, way, request):
    folder = needed.with_name(release)
    install(folder, "--no-deps", f"mcp=={release}")
    minor = int(release.split(".")[1])
    if way == "stdio":
        to = [COMMAND]
    elif minor < 8:
        pytest.skip("it does not speak Streamable HTTP")
    else:
        server = request.getfixturevalue("server")
        to = [f"{server.url}/mcp", server.key]
    client = subprocess.run(
        [sys.executable, str(HERE / "mcp_older.py"), way, *to],
        env={**os.environ, "PYTHONPATH": f"{folder}:{needed}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert client.returncode == 0, client.stderr
    assert not [word for word in COMPLAINTS if word in client.stderr], client.stderr
    told = json.loads(client.stdout)
    assert "run_python" in told["tools"]
    assert told["texts"][0].startswith("42\n")
    # The figure that the code saved is captured as well, and comes once.
    assert told["kinds"].count("image") == 1
    links = ["resource_link"] * 2
    if told["version"] < "2025-06-18":
        links = ["text"]
        assert "a.png: belljar://runs/" in told["texts"][1]
    assert told["kinds"] == ["text", "image", *links]
