"""The images that runs start from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ._handle import Handle
from ._outcome import ImageInfo

if TYPE_CHECKING:
    from . import _belljar


class Images(Handle):
    """The images of a runtime: started interpreters with modules imported."""

    __slots__ = ("_core",)

    def __init__(self, core: _belljar.Images) -> None:
        self._core = core

    def get(self, name: str) -> ImageInfo:
        """Returns an image."""
        return ImageInfo(self._core.get(name, False))

    async def aget(self, name: str) -> ImageInfo:
        """Asynchronous variant."""
        return ImageInfo(await self._core.get(name, True))

    def prepare(self, name: str) -> None:
        """Loads an image, baking it if necessary, to keep this out of the first run."""
        self._core.prepare(name, False)

    async def aprepare(self, name: str) -> None:
        """Asynchronous variant."""
        await self._core.prepare(name, True)

    def build(self, recipe: str | os.PathLike[str]) -> ImageInfo:
        """Bakes an image from a recipe file."""
        return ImageInfo(self._core.build(recipe, False))

    async def abuild(self, recipe: str | os.PathLike[str]) -> ImageInfo:
        """Asynchronous variant."""
        return ImageInfo(await self._core.build(recipe, True))

    def remove(self, name: str) -> None:
        """Removes an image from the cache."""
        self._core.remove(name, False)

    async def aremove(self, name: str) -> None:
        """Asynchronous variant."""
        await self._core.remove(name, True)

    async def alist(self) -> list[ImageInfo]:
        """Asynchronous variant."""
        return [ImageInfo(image) for image in await self._core.list(True)]

    def list(self) -> list[ImageInfo]:
        """Lists all images, the built-in ones first."""
        return [ImageInfo(image) for image in self._core.list(False)]
