"""Objects that a notebook shows as pages of HTML.

The classes below know no HTML: the package registers what writes it, which is loaded for the first
page.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Shown:
    """An object that has a page."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        if _page is None:
            raise RuntimeError("nothing writes pages: register() was not called")
        return _page(self)


def register(page: Callable[[Shown], str]) -> None:
    """Has `page` write the pages of all objects."""
    global _page
    _page = page


_page: Callable[[Shown], str] | None = None
