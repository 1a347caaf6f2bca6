"""Files of a session, without a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._handle import Handle
from ._options import content
from ._outcome import PathEntry

if TYPE_CHECKING:
    from . import _belljar
    from ._types import FileContent


class SessionFiles(Handle):
    """The workspace of a session. Paths are relative to it and separated by ``/``; no link is
    followed. What is changed is there in the next run, in forks and checkpoints."""

    __slots__ = ("_core",)

    def __init__(self, core: _belljar.Files) -> None:
        self._core = core

    def stat(self, path: str) -> PathEntry:
        """What has that path."""
        return PathEntry(self._core.stat(path, False))

    async def astat(self, path: str) -> PathEntry:
        """The same for an event loop."""
        return PathEntry(await self._core.stat(path, True))

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of a file, or as many of them as it has of that range."""
        data: bytes = self._core.read(path, start, end, False)
        return data

    async def aread(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """The same for an event loop."""
        data: bytes = await self._core.read(path, start, end, True)
        return data

    def write(self, path: str, data: FileContent) -> PathEntry:
        """Writes a file: a text, bytes, or a copy of a file of this machine."""
        return PathEntry(self._core.write(path, content(data), False))

    async def awrite(self, path: str, data: FileContent) -> PathEntry:
        """The same for an event loop."""
        return PathEntry(await self._core.write(path, content(data), True))

    def make_dir(self, path: str) -> None:
        """Makes a directory, and those that it lies in."""
        self._core.make_dir(path, False)

    async def amake_dir(self, path: str) -> None:
        """The same for an event loop."""
        await self._core.make_dir(path, True)

    def rename(self, path: str, to: str) -> None:
        """Gives a file, a directory or a link another path."""
        self._core.rename(path, to, False)

    async def arename(self, path: str, to: str) -> None:
        """The same for an event loop."""
        await self._core.rename(path, to, True)

    def remove(self, path: str) -> None:
        """Removes a file, a link, or a directory with all that is in it."""
        self._core.remove(path, False)

    async def aremove(self, path: str) -> None:
        """The same for an event loop."""
        await self._core.remove(path, True)

    async def alist(self, dir: str = "", depth: int = 1) -> list[PathEntry]:
        """The same for an event loop."""
        return [PathEntry(entry) for entry in await self._core.list(dir, depth, True)]

    def list(self, dir: str = "", depth: int = 1) -> list[PathEntry]:
        """What lies in a directory, sorted by path, down to so many names below it."""
        return [PathEntry(entry) for entry in self._core.list(dir, depth, False)]
