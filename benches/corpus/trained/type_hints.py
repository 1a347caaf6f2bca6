from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Shown(Protocol):
    def show(self) -> str: ...


class Box(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value: T = value

    def map(self, f: Callable[[T], Any]) -> "Box[Any]":
        return Box(f(self.value))

    def show(self) -> str:
        return f"Box({self.value!r})"


class Maybe[V]:
    def __init__(self, value: V | None = None) -> None:
        self.value = value

    def then(self, f: Callable[[V], "Maybe[V]"]) -> "Maybe[V]":
        return self if self.value is None else f(self.value)


def show_all(items: Iterable[Shown]) -> list[str]:
    return [item.show() for item in items]


def half(n: int) -> Maybe[int]:
    return Maybe(n // 2) if n % 2 == 0 else Maybe()


boxes = [Box(i).map(lambda x: x + 1).map(str) for i in range(2_000)]
halves = [Maybe(i).then(half).then(half).value for i in range(4_000)]
print(show_all(boxes)[-1], sum(h is not None for h in halves), show_all.__annotations__.keys())
