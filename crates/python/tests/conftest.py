"""A runtime shared by all tests: in this process, in a process of its own, and as a server.

BELLJAR names the command that serves, else it is the one in target/release. A test with the mark
``here`` is run in this process only; the mark says why.
"""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import belljar

TOP = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target"))
COMMAND = Path(os.environ.get("BELLJAR", TARGET / "release" / "belljar"))


@pytest.fixture(scope="session")
def here():
    with belljar.Runtime() as runtime:
        yield runtime


@pytest.fixture(scope="session")
def served():
    """The URL of a server, and its key."""
    if not COMMAND.exists():
        pytest.skip(f"{COMMAND} is not installed")
    command = [COMMAND, "serve", "--listen", "127.0.0.1:0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        ready = json.loads(process.stdout.readline())
        yield ready["url"], ready["key"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


@pytest.fixture(scope="session")
def server(served):
    with belljar.connect(*served) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def process():
    with belljar.Runtime(isolation="process") as runtime:
        yield runtime


@pytest.fixture(scope="session", params=["here", "process", "server"])
def runtime(request):
    return request.getfixturevalue(request.param)


def pytest_configure(config):
    config.addinivalue_line("markers", "here(why): runs in this process only")


def pytest_collection_modifyitems(config, items):
    def is_elsewhere(item):
        params = getattr(item, "callspec", None)
        is_remote = params is not None and params.params.get("runtime") in ("process", "server")
        return is_remote and item.get_closest_marker("here") is not None

    left_out = [item for item in items if is_elsewhere(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def session(runtime):
    with runtime.session(image="core") as session:
        yield session


@pytest.fixture(scope="module")
def data_session(runtime):
    """The same with numpy and pandas imported."""
    with runtime.session(image="data", init_code="import numpy as np, pandas as pd") as session:
        yield session


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    """Where all packages are installed, a test skipped for a missing package counts as failed."""
    if not os.environ.get("BELLJAR_TEST_NO_SKIPS"):
        return
    missing = [
        report.longrepr[2]
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
        and ("is not installed" in report.longrepr[2] or "could not import" in report.longrepr[2])
    ]
    for reason in missing:
        terminalreporter.write_line(f"a test must not be skipped here: {reason}", red=True)
    if missing:
        terminalreporter._session.exitstatus = pytest.ExitCode.TESTS_FAILED
