import collections
import dataclasses
import datetime
import enum
import pathlib
import types
import uuid


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    tags: set


Pair = collections.namedtuple("Pair", "left right")
result = {
    "datetime": datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC),
    "date": datetime.date(2024, 2, 29),
    "time": datetime.time(12, 30),
    "duration": datetime.timedelta(minutes=1, milliseconds=500),
    "set": {3, 1, 2},
    "frozen": frozenset("cab"),
    "mixed": {1, "a", None},
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"ab"),
    "tuple": (1, (2, 3)),
    "dataclass": Point(1, {"b", "a"}),
    "named": Pair(1, 2),
    "enum": Colour.RED,
    "uuid": uuid.UUID(int=1),
    "path": pathlib.PurePosixPath("a/b"),
    "range": range(3),
    "deque": collections.deque([1, 2]),
    "counter": collections.Counter("aab"),
    "namespace": types.SimpleNamespace(a=1),
    "keys": {1: "int", "1": "text", None: "null", (1, 2): "tuple", 1.5: "float"},
}

# expect result: {"datetime": "2024-02-29T12:30:00+00:00", "date": "2024-02-29", "time": "12:30:00", "duration": 60.5, "set": [1, 2, 3], "frozen": ["a", "b", "c"], "mixed": [1, "a", null], "bytes": "AP8=", "bytearray": "YWI=", "tuple": [1, [2, 3]], "dataclass": {"x": 1, "tags": ["a", "b"]}, "named": {"left": 1, "right": 2}, "enum": "red", "uuid": "00000000-0000-0000-0000-000000000001", "path": "a/b", "range": [0, 1, 2], "deque": [1, 2], "counter": {"a": 2, "b": 1}, "namespace": {"a": 1}, "keys": {"1": "int", "1 (2)": "text", "null": "null", "(1, 2)": "tuple", "1.5": "float"}}
