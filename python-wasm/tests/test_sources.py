"""Dedenting, echoing and finding source text again."""

import ast

import pytest

from _belljar import sources


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = 1\n  y", "x = 1\n  y"),
        ("  x\n  y", "x\ny"),
        ("\n\n  x\n\n  y\n", "\n\nx\n\ny\n"),
        ("  if x:\n    y\n  z", "if x:\n  y\nz"),
        ("\tx\n\ty", "x\ny"),
        ("\tx\n  y", "\tx\n  y"),
        ("  x\ny", "  x\ny"),
        ("# note\n  x\n# more\n  y", "# note\nx\n# more\ny"),
        ("# note\nx", "# note\nx"),
        ("    x\n  y", "  x\ny"),
        ("  x\r\n  y\r\n", "x\r\ny\r\n"),
        ("   \n  x", "\nx"),
        ("  # note\n  x", "# note\nx"),
        ("\n", "\n"),
        ("", ""),
        ("   ", "   "),
    ],
)
def test_dedent(code, expected):
    assert sources.dedent(code) == expected


def shown(code, echo):
    tree = sources.echoing(sources.parse(code), code, echo)
    return [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Expr)]


def test_which_expressions_are_shown():
    code = (
        "1\nif 2:\n    3\nfor x in 4: 5\ntry: 6\nexcept: 7\nwith x: 8\nmatch 9:\n    case 1: 10\n11"
    )
    assert shown(code, "all") == ["1", "11"]
    assert shown(code, "last") == ["11"]
    assert shown("1\nx = 2", "last") == []
    assert shown("1; 'é';", "last") == []
    assert shown("1; 'é' ; # note", "last") == []
    assert shown("'é;'", "last") == ["'é;'"]


def test_functions_are_left_alone():
    code = "def f():\n    1\nclass A:\n    2\nx = [3]"
    tree = sources.echoing(sources.parse(code), code, "all")
    assert [ast.dump(node) for node in tree.body] == [ast.dump(n) for n in ast.parse(code).body]


@pytest.mark.parametrize("echo", ["none", "all", "last"])
@pytest.mark.parametrize(
    "code",
    [
        "",
        "'text'",
        "async def f(): await g()\nawait f()\nasync for x in y: x",
        "from __future__ import annotations\nx: y = 1",
        "with a as b, c: b",
        "[i for i in range(3)]",
        "lambda: (yield)",
    ],
)
def test_everything_compiles(code, echo):
    sources.translate(code, echo)


def test_code_objects_are_known_by_identity():
    root = sources.translate("def f():\n    def g(): pass", "none")
    same = sources.translate("def f():\n    def g(): pass", "none")
    sources.remember(root, "the source")
    (function,) = (const for const in root.co_consts if hasattr(const, "co_code"))
    (inner,) = (const for const in function.co_consts if hasattr(const, "co_code"))
    assert sources.source_of(inner) == "the source"
    assert sources.source_of(same) is None
    assert sources.is_current(inner)
    sources.remember(same, "another")
    assert sources.source_of(inner) == "the source"
    assert not sources.is_current(inner)
    sources.forget()
    assert sources.source_of(inner) is None


def test_only_the_latest_programs_are_kept():
    first = sources.translate("x", "none")
    sources.remember(first, "x")
    for _ in range(200):
        sources.remember(sources.translate("y", "none"), "y")
    assert sources.source_of(first) is None
    sources.forget()
