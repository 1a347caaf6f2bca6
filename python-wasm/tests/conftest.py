"""The runner for unit tests: the package `_belljar` with a door that tests can observe.

Whole runs use a separate process instead: see `process.py`.
"""

import importlib.util
import json
import pathlib
import sys
import types

import pytest

from decoding import decoded
from process import Runs

RUNNER = pathlib.Path(__file__).parent.parent / "runner"


_CODECS = {b"s": "snappy", b"r": "lz4_raw", b"f": "lz4", b"z": "zstd"}


def _convert(frame):
    """What the host's codecs do, by pyarrow's."""
    if frame[1:2] == b"v":
        return decoded(frame[2:3], int.from_bytes(frame[3:7], "little"), frame[7:])
    pyarrow = pytest.importorskip("pyarrow")
    codec, size, data = _CODECS[frame[2:3]], int.from_bytes(frame[3:7], "little"), frame[7:]
    assert 0 < size <= 64 << 20, "the host refuses this"
    if frame[1:2] == b"c":
        assert size == len(data)
        return pyarrow.compress(data, codec, asbytes=True)
    try:
        # Unlike the host, pyarrow accepts a size that is too large.
        return pyarrow.decompress(data, size, codec, asbytes=True)
    except (OSError, ValueError):
        return b""


class Door:
    """A mock host: stores the frames, or rejects them; it decompresses and compresses."""

    def __init__(self):
        self.frames = []
        self.calls = 0  # that these frames took
        self.refuses = False
        self.most = 1 << 30  # bytes of a frame

    def call(self, data):
        if self.refuses or len(data) > self.most:
            raise RuntimeError("the host refuses")
        if data[:1] == b"z":
            return _convert(data)
        self.calls += 1
        # Several pandas objects may come in one frame.
        for payload in data[1:].split(b"\n"):
            self.frames.append((data[:1].decode(), json.loads(payload)))
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
