"""One runtime for all tests, as a program has it."""

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
    """One with numpy and pandas imported."""
    with runtime.session(image="data", init_code="import numpy as np, pandas as pd") as session:
        yield session
