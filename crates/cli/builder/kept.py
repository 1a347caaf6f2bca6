"""The wheels that were built on this machine, by everything that they depend on.

A wheel depends on package, version and source, the recipe with its files, the compilers, the
runtime that it is linked with, and these programs. What a package's build requires is not pinned.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path

from recipe import plain_name, sha256_of
from toolchain import HERE

FILE = "built.json"


class Kept:
    def __init__(self, folder, plan, tools):
        self.plan = plan
        self.folder = folder / plain_name(plan.name)
        state = hashlib.sha256(f"{tools.folder.name}\n{sys.version}\n{rust_version()}".encode())
        programs = [
            *HERE.glob("*.py"),
            *(HERE / "hooks").glob("*.py"),
            *(HERE / "target").glob("*"),
        ]
        for path in [*sorted(path for path in programs if path.is_file()), *plan.files()]:
            content = path.read_bytes()
            state.update(f"{path.name} {len(content)}\n".encode() + content)
        self.key = state.hexdigest()[:16]

    def find(self):
        """Returns what is known of the wheel; without a version, of the newest one."""
        plan = self.plan
        for place in sorted(self.folder.glob(f"*-{self.key}"), key=newest, reverse=True):
            try:
                known = json.loads((place / FILE).read_text())
                if plan.version not in (None, known["version"]):
                    continue
                if plan.expected not in (None, known["source"]):
                    continue
                wheel = place / known["file"]
                if sha256_of(wheel) == known["sha256"]:
                    plan.version = known["version"]
                    return {"path": str(wheel), "source": known["source"]}
            except (OSError, ValueError, KeyError):
                continue
        return None

    @contextmanager
    def locked(self):
        """Keeps other builds of the package waiting."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            flock(lock, LOCK_EX)
            yield

    @contextmanager
    def making(self):
        """A folder for the wheel, which is removed if the build fails."""
        # Left by a build that was killed.
        for unfinished in self.folder.glob("making-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="making-") as made:
            yield Path(made, "wheel")

    def keep(self, wheel):
        """Keeps a wheel in the folder of `making`, while the package is locked."""
        version, source = self.plan.version, self.plan.source
        known = {"file": wheel.name, "sha256": sha256_of(wheel)}
        known |= {"version": version, "source": source}
        (wheel.parent / FILE).write_text(json.dumps(known))
        place = self.folder / f"{version}-{source[:16]}-{self.key}"
        # A valid one would have been found.
        shutil.rmtree(place, ignore_errors=True)
        wheel.parent.rename(place)
        return {"path": str(place / wheel.name), "source": source}


def newest(place):
    """Orders the folders of versions: numbers by value, and final versions after others."""
    version = place.name.rsplit("-", 2)[0]
    parts = re.findall(r"\d+|[a-z]+", version)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def rust_version():
    """Returns the version of the compiler that cargo would run, or nothing without Rust."""
    rust = os.environ.get("RUSTC") or shutil.which("rustc")
    if rust is None:
        return ""
    asked = subprocess.run([rust, "-vV"], capture_output=True, text=True, check=False)
    return asked.stdout


def copy(wheel, folder):
    """Copies a wheel into a folder, and returns the copy."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=folder, prefix=".")
    os.close(handle)
    try:
        shutil.copyfile(wheel, unfinished)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, folder / wheel.name)
    except BaseException:
        os.unlink(unfinished)
        raise
    return folder / wheel.name
