"""A directory of the host and the workspace of a session, kept alike from run to run."""

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
    """What a session was given of a directory so far.

    Hidden files and directories are left out, and links: what a session sees is what lies in the
    directory itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: dict[str, tuple[int, int]] = {}

    def changed(self) -> dict[str, bytes]:
        """The files that are new or changed since the last call, by their paths in it."""
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
        """Writes a file that a run made.

        Not where a link leads its path out of the directory, or where something is in the way
        that is no file.
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
