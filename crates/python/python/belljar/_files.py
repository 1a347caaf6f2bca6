"""Access to the files of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._handle import Handle
from ._options import content
from ._outcome import PathEntry

if TYPE_CHECKING:
    from . import _belljar
    from ._types import FileContent


class SessionFiles(Handle):
    """The workspace of a session. Paths are relative to it and separated by ``/``; links are not
    followed. Changes are visible to the next run, and included in forks and checkpoints.
    """

    __slots__ = ("_core",)

    def __init__(self, core: _belljar.Files) -> None:
        self._core = core

    def stat(self, path: str) -> PathEntry:
        """Returns the entry at a path."""
        return PathEntry(self._core.stat(path, False))

    async def astat(self, path: str) -> PathEntry:
        """Asynchronous variant."""
        return PathEntry(await self._core.stat(path, True))

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Reads a file, or a range of it. A range past the end gives fewer bytes."""
        data: bytes = self._core.read(path, start, end, False)
        return data

    async def aread(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Asynchronous variant."""
        data: bytes = await self._core.read(path, start, end, True)
        return data

    def write(self, path: str, data: FileContent) -> PathEntry:
        """Writes a file from text, from bytes, or as a copy of a file on this machine."""
        return PathEntry(self._core.write(path, content(data), False))

    async def awrite(self, path: str, data: FileContent) -> PathEntry:
        """Asynchronous variant."""
        return PathEntry(await self._core.write(path, content(data), True))

    def make_dir(self, path: str) -> None:
        """Creates a directory and its parents."""
        self._core.make_dir(path, False)

    async def amake_dir(self, path: str) -> None:
        """Asynchronous variant."""
        await self._core.make_dir(path, True)

    def rename(self, path: str, to: str) -> None:
        """Renames a file, directory or link."""
        self._core.rename(path, to, False)

    async def arename(self, path: str, to: str) -> None:
        """Asynchronous variant."""
        await self._core.rename(path, to, True)

    def remove(self, path: str) -> None:
        """Removes a file, a link, or a directory with its contents."""
        self._core.remove(path, False)

    async def aremove(self, path: str) -> None:
        """Asynchronous variant."""
        await self._core.remove(path, True)

    async def alist(self, dir: str = "", depth: int = 1) -> list[PathEntry]:
        """Asynchronous variant."""
        return [PathEntry(entry) for entry in await self._core.list(dir, depth, True)]

    def list(self, dir: str = "", depth: int = 1) -> list[PathEntry]:
        """Lists a directory to a depth of this many levels, sorted by path."""
        return [PathEntry(entry) for entry in self._core.list(dir, depth, False)]
