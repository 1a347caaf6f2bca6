"""The runner for unit tests: the package `_belljar` with a door that tests can observe.

Whole runs use a separate process instead: see `process.py`.
"""

import importlib.util
import json
import pathlib
import sys
import types

import pytest

from process import Runs

RUNNER = pathlib.Path(__file__).parent.parent / "runner"


class Door:
    """A mock host: stores the frames, or rejects them."""

    def __init__(self):
        self.frames = []
        self.refuses = False

    def call(self, data):
        if self.refuses:
            raise RuntimeError("the host refuses")
        self.frames.append((data[:1].decode(), json.loads(data[1:])))
        return b""

    def of(self, op):
        return [payload for name, payload in self.frames if name == op]


class _Host(types.ModuleType):
    door = Door()

    @staticmethod
    def call(data):
        return _Host.door.call(data)


def _load():
    sys.modules["_host"] = _Host("_host")
    package = importlib.util.module_from_spec(importlib.util.spec_from_loader("_belljar", None))
    package.__path__ = [str(RUNNER)]
    sys.modules["_belljar"] = package


_load()


@pytest.fixture
def door(monkeypatch):
    from _belljar.protocol import interrupt

    fresh = Door()
    monkeypatch.setattr(_Host, "door", fresh)
    monkeypatch.setattr(interrupt.STATE, "stopped", False)
    return fresh


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)
