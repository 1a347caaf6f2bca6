"""The wheels that were built on this machine, by everything that they depend on.

A wheel depends on package and version, the recipe with its files, the compilers, the runtime that
it is linked with, and these programs. What a package's build requires is not pinned.
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
from pathlib import Path

from toolchain import HERE

FILE = "built.json"


class Kept:
    def __init__(self, folder, plan, tools):
        self.plan = plan
        self.folder = folder / re.sub(r"[-_.]+", "-", plan.name).lower()
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
        wanted = self.plan.version or "*"
        for place in sorted(self.folder.glob(f"{wanted}-{self.key}"), key=newest, reverse=True):
            try:
                known = json.loads((place / FILE).read_text())
                wheel = place / known["file"]
                if sha256_of(wheel) == known["sha256"]:
                    self.plan.version = known["version"]
                    return {"path": str(wheel), "source": known["source"]}
            except (OSError, ValueError, KeyError):
                continue
        return None

    @contextmanager
    def making(self):
        """A folder for the wheel, which is removed if the build fails."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="making-") as made:
            yield Path(made, "wheel")

    def keep(self, wheel):
        """Keeps a wheel in the folder of `making`."""
        known = {"file": wheel.name, "sha256": sha256_of(wheel)}
        known |= {"version": self.plan.version, "source": self.plan.source}
        (wheel.parent / FILE).write_text(json.dumps(known))
        faster = self.find()
        if faster is not None:
            return faster
        place = self.folder / f"{self.plan.version}-{self.key}"
        shutil.rmtree(place, ignore_errors=True)
        wheel.parent.rename(place)
        return self.find()


def newest(place):
    """Orders the folders of versions: numbers by value, and final versions after others."""
    version = place.name.rpartition("-")[0]
    parts = re.findall(r"\d+|[a-z]+", version)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def rust_version():
    """Returns the version of the compiler that cargo would run, or nothing without Rust."""
    rust = os.environ.get("RUSTC") or shutil.which("rustc")
    if rust is None:
        return ""
    asked = subprocess.run([rust, "-vV"], capture_output=True, text=True, check=False)
    return asked.stdout


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
