"""Dedenting, echoing and finding source text."""

import ast
import sys

import pytest

from _belljar.source import sources


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
    others = [sources.translate("y", "none") for _ in range(200)]
    for code in others:
        sources.remember(code, "y")
    assert sources.source_of(first) is None
    assert sources.source_of(others[0]) == "y"
    sources.forget()


def test_programs_that_nothing_refers_to_are_dropped():
    kept = {}
    for text in ["x = 1", "def f(): pass", "import sys\nframe = sys._getframe()", "y = 2"]:
        code = sources.translate(text, "none")
        sources.remember(code, text)
        exec(code, kept)
        del code
    sources.remember(sources.translate("z", "none"), "z")
    texts = [source for _, source, _ in sources._programs]
    assert texts == ["def f(): pass", "import sys\nframe = sys._getframe()", "z"]
    assert sources.source_of(kept["f"].__code__) == "def f(): pass"
    assert sources.source_of(kept["frame"].f_code).endswith("_getframe()")
    sources.forget()


@pytest.mark.parametrize("echo", ["all", "last", "display"])
@pytest.mark.parametrize(
    "text",
    [
        "1 + 1",
        "x = 1",
        "print('a') or 5",
        "'text'",
        "1; 2",
        "2;",
        "'a;b'",
        "if True: 3",
        "for n in range(2): n",
        "match = 4",
        "iffy = 1",
        "import sys",
        "await_ = 1",
        "lambda: 1",
        "# nothing",
        "del x",
        "(1,\n2)",
        "1\n",
        "1\n\n",
        "1\n# more",
        "1\n2",
    ],
)
def test_one_statement_shows_what_it_shows_among_others(monkeypatch, text, echo):
    shown = []
    monkeypatch.setattr(sys, "displayhook", shown.append)
    exec(sources.translate(text, echo), {"x": 7})
    alone, shown[:] = [*shown], []
    tree = sources.parse(text)
    exec(sources.translate(text, echo, tree), {"x": 7})
    assert list(map(repr, alone)) == list(map(repr, shown)) or "lambda" in text


@pytest.mark.parametrize("text", ["x =", "1 +", "f(", "'open", "x y", "return 1", "\0"])
def test_one_line_that_is_wrong_is_told_as_any_code_is(text):
    with pytest.raises((SyntaxError, ValueError)) as alone:
        sources.translate(text, "all")
    with pytest.raises((SyntaxError, ValueError)) as among_others:
        sources.translate(text, "all", sources.parse(text))
    assert str(alone.value) == str(among_others.value)
