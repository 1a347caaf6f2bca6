"""Synchronizes a host directory with the workspace of a session, from run to run."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

MAX_FILES = 1_000
"""Files of the directory that are given to a session; those after them, by path, are not."""
MAX_BYTES = 256 << 20
"""Bytes of all of them."""


class Workdir:
    """The state of a directory as last given to a session.

    Leaves out hidden files and directories, and links: the session sees only what is in the
    directory itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: dict[str, tuple[int, int]] = {}

    def changed(self) -> dict[str, bytes]:
        """Returns files that are new or changed since the last call, by relative path."""
        files: dict[str, bytes] = {}
        size = 0
        for relative, path, status in islice(_regular_files(self.path), MAX_FILES):
            size += status.st_size
            if size > MAX_BYTES:
                break
            mark = (status.st_mtime_ns, status.st_size)
            if self._seen.get(relative) != mark:
                files[relative] = path.read_bytes()
                self._seen[relative] = mark
        return files

    def take(self, relative: str, content: bytes) -> Path | None:
        """Writes a file created by a run.

        Does nothing if a link leads its path out of the directory, or if something other than a
        file has its name.
        """
        target = self.path / relative
        root = self.path.resolve()
        if not target.parent.resolve().is_relative_to(root) or target.is_symlink():
            return None
        if target.exists() and not target.is_file():
            return None
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            return None
        target.write_bytes(content)
        status = target.stat()
        self._seen[relative] = (status.st_mtime_ns, status.st_size)
        return target


def _regular_files(root: Path) -> Iterator[tuple[str, Path, os.stat_result]]:
    for directory, names, files in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            path = Path(directory, name)
            if name.startswith("."):
                continue
            try:
                status = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield path.relative_to(root).as_posix(), path, status
