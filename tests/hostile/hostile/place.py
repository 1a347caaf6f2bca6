"""The surroundings of one program: a secret, a directory to damage, and listeners."""

import os
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

# In the environment of the process that runs the programs.
ENVIRONMENT_SECRET = "hostile-secret-" + secrets.token_hex(12)


class Place:
    """A directory: `work` and `tmp` belong to the program, and nothing else in `box` may change."""

    def __init__(self, listener=None):
        self.base = Path(tempfile.mkdtemp(prefix="hostile-"))
        self.secret = "hostile-secret-" + secrets.token_hex(12)
        self.mark = "forged" + secrets.token_hex(6)
        self.box = self.base / "box"
        self.out = self.base / "out"
        for directory in ("work", "tmp", "outside", "names"):
            (self.box / directory).mkdir(parents=True)
        self.out.mkdir()
        (self.box / "secret.txt").write_text(self.secret)
        (self.box / "names" / self.secret).touch()
        (self.box / "outside" / "victim.txt").write_text("as it was\n")
        for path in (self.base, *self.box.rglob("*"), self.box, self.out):
            path.chmod(0o777 if path.is_dir() else 0o666)
        if os.geteuid() == 0:  # The control runs as `nobody`, and may change these.
            os.chown(self.box / "outside" / "victim.txt", 65534, 65534)
        self.port = listener.port if listener else 4711
        self.before = self.fingerprint()

    def words(self):
        return {
            "SECRET_FILE": str(self.box / "secret.txt"),
            "OUTSIDE": str(self.box / "outside"),
            "SOCKET": str(self.base / "socket"),
            "PORT": str(self.port),
            "MARK": self.mark,
        }

    def fingerprint(self):
        """The files of the box that do not belong to the program."""
        found = {}
        for top, directories, files in os.walk(self.box):
            relative = os.path.relpath(top, self.box)
            if relative == ".":
                directories[:] = [d for d in directories if d not in ("work", "tmp")]
            for name in files + directories:
                path = os.path.join(top, name)
                status = os.lstat(path)
                plain = stat.S_ISREG(status.st_mode) and status.st_size < 1 << 20
                content = Path(path).read_bytes() if plain else b""
                # The times of a directory change with its entries, which are compared themselves.
                times = status.st_mtime_ns if name in files else 0
                found[path] = (status.st_mode, status.st_size, times, content, _attributes(path))
        return found

    def spoiled(self):
        """The changes as text; empty if there are no changes."""
        now = self.fingerprint()
        changed = [p for p in now.keys() | self.before.keys() if now.get(p) != self.before.get(p)]
        return ", ".join(os.path.relpath(p, self.box) for p in sorted(changed))

    def copied_text(self):
        """The files that the target copied out for its caller, names included."""
        texts = []
        for path in self.out.rglob("*"):
            texts.append(str(path.relative_to(self.out)))
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 22:
                texts.append(path.read_text(errors="replace"))
        return "\n".join(texts)

    def disk(self):
        return _bytes_in(self.box / "work") + _bytes_in(self.box / "tmp")

    def remove(self):
        shutil.rmtree(self.base, ignore_errors=True)


def _attributes(path):
    try:
        return tuple(os.listxattr(path, follow_symlinks=False))
    except OSError:
        return ()


def _bytes_in(directory):
    total = 0
    for top, directories, files in os.walk(directory):
        for name in files + directories:
            try:
                status = os.lstat(os.path.join(top, name))
            except OSError:
                continue
            total += max(status.st_blocks * 512, 4096)
    return total
