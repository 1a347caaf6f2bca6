from dataclasses import dataclass


@dataclass
class Circle:
    radius: float


@dataclass
class Box:
    width: float
    height: float


def describe(value):
    match value:
        case Circle(radius=r) if r > 5:
            return "large circle"
        case Circle():
            return "circle"
        case Box(width=w, height=h) if w == h:
            return "square"
        case Box(w, h):
            return f"box {w}x{h}"
        case {"type": "point", "at": [x, y]}:
            return f"point {x + y}"
        case [first, *rest]:
            return f"list {first} {len(rest)}"
        case int() | float():
            return "number"
        case _:
            return "other"


values = [Circle(i % 9) for i in range(1_500)] + [Box(i % 4, 2) for i in range(1_500)]
values += [{"type": "point", "at": [i, 1]} for i in range(1_500)] + [[1, 2, 3], "x", 5, 2.5] * 300
counts = {}
for value in values:
    key = describe(value)
    counts[key] = counts.get(key, 0) + 1
print(len(counts), counts["large circle"], counts["square"], counts["number"])
