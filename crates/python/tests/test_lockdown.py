"""The process locks itself down, and no release has the tests' hook."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import belljar
from belljar import _belljar

PROGRAM = """
    import json, os, sys, threading
    import belljar
    runtime = belljar.Runtime()
    runtime.run("1")
    threads = [threading.Thread(target=threading.Event().wait, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    report = runtime.lockdown(read=[sys.argv[1]]) if sys.argv[2] == "locked" else None
    can = {}
    for name in ("read", "other"):
        try:
            open(os.path.join(sys.argv[1 if name == "read" else 3], "text")).read()
            can[name] = True
        except PermissionError:
            can[name] = False
    can["run"] = runtime.run("print(6 * 7)").stdout
    print(json.dumps([report, can]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is enforced elsewhere")
def test_a_process_keeps_what_was_named(tmp_path):
    import json

    kept, other = tmp_path / "kept", tmp_path / "other"
    for directory in (kept, other):
        directory.mkdir()
        (directory / "text").write_text("x")

    def run(how):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), str(kept), how, str(other)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert run("free") == [None, {"read": True, "other": True, "run": "42\n"}]
    report, can = run("locked")
    assert report["whole"] == (not report["failures"])
    if report["landlock"] is None:
        pytest.skip(f"this kernel has no Landlock: {report['failures']}")
    assert can == {"read": True, "other": False, "run": "42\n"}


def test_the_clock_is_rounded():
    code = "import time; result = sum(time.monotonic_ns() % 1_000_000 for _ in range(50))"
    with belljar.Runtime(clock_resolution=1_000_000) as runtime:
        assert runtime.run(code).result == 0
    with belljar.Runtime() as runtime:
        assert runtime.run(code).result > 0


def test_the_extension_has_no_hook_for_escapes():
    hook = b"belljar was built with the hook of the escape tests"
    assert hook not in Path(_belljar.__file__).read_bytes()
