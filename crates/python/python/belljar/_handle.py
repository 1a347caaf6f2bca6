"""The base class of handles to native objects."""

from __future__ import annotations


class Handle:
    """A handle to an object of this process."""

    __slots__ = ("__weakref__",)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            f"a {type(self).__name__} belongs to this process and cannot be pickled: "
            "make one in the other process"
        )

    def __copy__(self) -> object:
        return self

    def __deepcopy__(self, _memo: object) -> object:
        raise TypeError(f"a {type(self).__name__} cannot be copied")
