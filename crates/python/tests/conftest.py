"""A runtime shared by all tests."""

import os

import pytest

import belljar


@pytest.fixture(scope="session")
def runtime():
    with belljar.Runtime() as runtime:
        yield runtime


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
