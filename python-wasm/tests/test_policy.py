"""The check of a policy, and its guard at run time."""

import pytest

from _belljar.source import policy

RULES = {
    "imports": "math datetime json itertools functools collections re random statistics decimal "
    "string typing dataclasses enum fractions time operator copy".split(),
    "forbidden_names": "exec eval compile open input globals locals vars dir breakpoint "
    "__import__ getattr setattr delattr __builtins__".split(),
    "forbidden_attributes": "__builtins__ __globals__ __code__ __dict__ __class__ "
    "__subclasses__".split(),
}
LOOSE = {
    "imports": ["os.path", "json"],
    "forbidden_names": [],
    "forbidden_attributes": ["__dict__"],
}


def messages(code, rules=RULES):
    violations, _ = policy.check(code, rules)
    return [(violation["line"], violation["message"]) for violation in violations]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import math, json", []),
        ("from collections.abc import Mapping", []),
        ("import os", [(1, "Forbidden import: os")]),
        ("import os.path as p", [(1, "Forbidden import: os")]),
        ("x = 1\nfrom subprocess import run", [(2, "Forbidden import: subprocess")]),
        ("from . import x", [(1, "Forbidden import: .")]),
        ("eval('1')", [(1, "Forbidden operation: eval")]),
        ("e = eval", [(1, "Forbidden operation: eval")]),
        ("[].__class__", [(1, "Forbidden attribute: __class__")]),
        ("from typing import __builtins__", [(1, "Forbidden operation: __builtins__")]),
        ("match 1:\n    case int(__class__=x): pass", [(2, "Forbidden attribute: __class__")]),
        (
            "eval('1')\nimport os, sys\nx.__dict__",
            [
                (1, "Forbidden operation: eval"),
                (2, "Forbidden import: os"),
                (2, "Forbidden import: sys"),
                (3, "Forbidden attribute: __dict__"),
            ],
        ),
        (
            "def f():\n    import os\nlambda: open",
            [(2, "Forbidden import: os"), (3, "Forbidden operation: open")],
        ),
        ("try:\n    raise ValueError\nexcept* ValueError: pass\nclass A: pass", []),
        ("    import os", [(1, "Forbidden import: os")]),
    ],
)
def test_violations(code, expected):
    assert messages(code) == expected


def test_a_dotted_entry_allows_that_module_alone():
    assert messages("import os.path\nimport json.decoder", LOOSE) == []
    assert messages("import os", LOOSE) == [(1, "Forbidden import: os")]


def test_attributes_asked_for_by_name():
    assert messages("getattr(x, '__dict__')", LOOSE) == [(1, "Forbidden attribute: __dict__")]
    assert messages("getattr(x, name)", LOOSE) == []


def test_the_imports_are_listed():
    assert policy.check("import os.path, re\nfrom json import loads", RULES)[1] == [
        "json",
        "os",
        "re",
    ]


def test_a_refused_run_does_nothing(runs):
    done = runs("print(1)\nimport os\neval('1')\neval('2')", policy=RULES)
    status = done.status()
    assert (status["status"], status["type"], status["line"]) == ("policy", "SecurityError", 2)
    assert status["message"] == "Forbidden import: os; Forbidden operation: eval"
    assert [violation["line"] for violation in status["violations"]] == [2, 3, 4]
    assert done.stdout == ""
    assert done.ended()


ORDINARY = """
import collections, dataclasses, enum, functools, json, math, random, statistics, typing
from dataclasses import dataclass, field
from collections import abc, namedtuple

@dataclass(order=True, slots=True)
class A:
    x: int = 1
    xs: list = field(default_factory=list)

class Colour(enum.Enum):
    RED = 1

class Base:
    def __init__(self): self.x = 1
class Child(Base):
    def __init__(self):
        super().__init__()

class P(typing.NamedTuple):
    x: int

N = namedtuple('N', 'a b')
typing.get_type_hints(A)

@functools.lru_cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)

try:
    raise ValueError('x')
except ValueError as error:
    print(error)
finally:
    print([x * y for x in range(2) for y in range(2)], {a: b for a, b in zip('ab', 'cd')})
async def f():
    return 1
print(await f(), f'{math.pi:.2f}', json.dumps(dataclasses.asdict(A())), fib(10))
result = [A(2) > A(1), Child().x, P(1).x, N(1, 2).b, sorted([3, 1]), isinstance(1, int)]
"""


def test_ordinary_code_runs_under_it(runs):
    done = runs(ORDINARY, policy=RULES)
    assert done.status()["status"] == "ok", done.stderr
    assert done.value() == [True, 1, 1, 2, [1, 3], True]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("m = __builtins__['__import__']('os')", "Import of 'os' is not allowed"),
        ("from random import _os", "Import of 'os' is not allowed"),
        ("from typing import sys", "Import of 'sys' is not allowed"),
    ],
)
def test_imports_at_run_time(runs, code, message):
    rules = {**RULES, "forbidden_names": [], "forbidden_attributes": []}
    status = runs(code, policy=rules).status()
    assert (status["type"], status["message"]) == ("ImportError", message)
    assert "policy" in status["hint"]


def test_allowed_modules_import_what_they_like(runs):
    rules = {**RULES, "imports": ["sqlite3", "os"]}
    done = runs("import sqlite3\nfrom os import path\nprint(path.sep)", policy=rules)
    assert done.stdout == "/\n"


def test_imports_by_c_code_are_not_the_codes_own(runs):
    done = runs("import datetime\nresult = datetime.datetime.strptime('2024', '%Y')", policy=RULES)
    assert done.value() == "2024-01-01T00:00:00"


def test_forbidden_names_are_not_there_either(runs):
    rules = {**RULES, "imports": ["sys"], "forbidden_names": ["eval"], "forbidden_attributes": []}
    done = runs("import sys\nprint('eval' in sys._getframe().f_builtins)", policy=rules)
    assert done.stdout == "False\n"


def test_a_policy_of_one_run_does_not_reach_the_next(runs):
    first = runs.request("x = 1", policy=RULES, session=True)
    second = runs.request("import os\nresult = x + len(dir())", session=True)
    assert runs.of([first, second]).status(1)["status"] == "ok"
