"""The hints, for failures as they appear in the guest."""

import errno
import hashlib
import os
import signal
import socket
import sqlite3
import urllib.error

import pytest

from _belljar.run import hints


def hint(error):
    return hints.hint(error, "/workspace")


def attribute(module, name):
    return AttributeError(f"module has no attribute {name!r}", name=name, obj=module)


NETWORK = "There is no network in this sandbox"
PROCESS = "No other process"
THREAD = "Threads and worker processes"


@pytest.mark.parametrize(
    ("error", "start"),
    [
        (ModuleNotFoundError("x", name="requests"), NETWORK),
        (ModuleNotFoundError("x", name="_decimal"), "`decimal` works in its pure Python form"),
        (attribute(hashlib, "scrypt"), "There is no scrypt"),
        (OSError("could not get source code"), "Only compiled code of the standard library"),
        (OSError("encoder jpeg not available"), "Pillow reads and writes PNG"),
        (OSError("cannot identify image file <x>"), "Pillow reads and writes PNG"),
        (OSError("mmap is unavailable on wasm32-wasi"), "Files cannot be mapped"),
        (sqlite3.OperationalError("database is locked"), "Connections cannot share locks"),
        (
            FileNotFoundError(2, "No such file", "/x.zip/statsmodels/datasets/fair/fair.csv"),
            "This data set is not in this build",
        ),
        (ModuleNotFoundError("x", name="_ssl"), NETWORK),
        (ModuleNotFoundError("x", name="polars"), "`polars` is not installed; pandas is available"),
        (ModuleNotFoundError("x", name="cv2.data"), None),
        (ModuleNotFoundError("x", name="docx"), "`docx` is in the image `office`. Once `belljar"),
        (ModuleNotFoundError("x", name="unheard_of"), "`unheard_of` is not installed. Nothing"),
        (ModuleNotFoundError("No module named 'sympy': this bundle", name="sympy"), None),
        (ModuleNotFoundError("No module named 'sympy'", name="sympy"), "`sympy` is not installed"),
        (ModuleNotFoundError("x", name="fcntl"), "`fcntl` depends on the operating system"),
        (ModuleNotFoundError("x", name="pip"), "Nothing can be installed at run time. `belljar"),
        (ModuleNotFoundError("x", name=5), None),
        (ImportError("Import of 'os' is not allowed"), "The policy of this run"),
        (ImportError("cannot import name 'x'"), None),
        (attribute(socket, "getaddrinfo"), NETWORK),
        (attribute(os, "fork"), PROCESS),
        (attribute(os, "system"), PROCESS),
        (attribute(os, "nonsense"), None),
        (attribute(signal, "alarm"), "There are no signal timers"),
        (AttributeError("x", name="fork", obj=5), None),
        (urllib.error.URLError("unknown url type: https"), NETWORK),
        (OSError(58, "wasi does not support processes."), PROCESS),
        (RuntimeError("can't start new thread"), THREAD),
        (RuntimeError("other"), None),
        (RuntimeError("asyncio.run() cannot be called from a running event loop"), "An event loop"),
        (NotImplementedError("This build lacks multiprocessing.synchronize"), THREAD),
        (FileNotFoundError(errno.ENOENT, "x", "/home/me/data.csv"), "Only /workspace, /tmp and"),
        (FileNotFoundError(errno.ENOENT, "x", b"/data.csv"), "Only /workspace, /tmp and"),
        (PermissionError(errno.EPERM, "x", "../../etc/passwd"), "Only /workspace, /tmp and"),
        (FileNotFoundError(errno.ENOENT, "x", "data.csv"), "There is no such file"),
        (FileNotFoundError(errno.ENOENT, "x", "/workspace/a"), "There is no such file"),
        (PermissionError(errno.EACCES, "x", "in.csv"), "This path cannot be written"),
        (FileNotFoundError(errno.ENOENT, "x", "/tmp/a"), "There is no such file"),
        (FileExistsError(errno.EEXIST, "x", "/elsewhere"), None),
        (IsADirectoryError(errno.EISDIR, "x", "/tmp"), None),
        (OSError(errno.EMFILE, "x", "/tmp/x256"), "Too many files are open"),
        (FileNotFoundError("only text"), None),
        (OSError(errno.ENOSPC, "x"), "The workspace is full"),
        (OSError(errno.EDQUOT, "x"), "The workspace is full"),
        (EOFError("EOF when reading a line"), "There is no input"),
        (EOFError("Ran out of input"), None),
        (MemoryError(), "The memory limit"),
        (
            MemoryError("Parser stack overflowed - Python source too complex to parse"),
            "The recursion",
        ),
        (ImportError("cannot import name '_imagingft' from 'PIL'"), "Pillow has no FreeType"),
        (RecursionError(), "The recursion"),
        (ValueError("x"), None),
        (KeyError("x"), None),
    ],
)
def test_each(error, start):
    found = hint(error)
    if start is None:
        assert found is None
    else:
        assert found.startswith(start)
        assert "\n" not in found
        assert len(found) < 200


def test_the_cause_may_have_it():
    outer = ValueError("outer")
    outer.__cause__ = ModuleNotFoundError("x", name="requests")
    assert hint(outer).startswith(NETWORK)
    outer = ValueError("outer")
    outer.__context__ = outer
    assert hint(outer) is None


def test_hostile_errors_have_none():
    class BadError(OSError):
        def __str__(self):
            raise ValueError

        errno = filename = property(lambda self: 1 / 0)

    assert hint(BadError()) is None


def test_a_run_carries_it(runs):
    assert "belljar image make" in runs("import polars").status()["hint"]
    assert runs("1/0").status()["hint"] is None
