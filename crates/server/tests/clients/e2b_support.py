"""What the tests of E2B's face share: how its SDK is pointed at the server, and a sandbox."""

import pytest
from e2b_code_interpreter import Sandbox


@pytest.fixture(autouse=True)
def environment(server, monkeypatch):
    """The variables with which a client is pointed at belljar."""
    monkeypatch.setenv("E2B_API_URL", server.url)
    monkeypatch.setenv("E2B_SANDBOX_URL", server.url)
    monkeypatch.setenv("E2B_API_KEY", server.key)


@pytest.fixture
def sandbox(environment):
    made = Sandbox.create(timeout=120)
    yield made
    made.kill()
