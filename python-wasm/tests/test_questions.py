"""Questions about a session: completion, description, completeness."""

import pytest

from _belljar.run import questions


@pytest.fixture
def names(monkeypatch):
    held = {}
    monkeypatch.setattr(questions, "_GLOBALS", held)
    return held


def complete(code):
    return questions._complete({"code": code, "cursor": len(code)})


def test_names_of_all_kinds(names):
    names.update(value=[1], _hidden=2)
    assert complete("print(val") == {"start": 6, "matches": ["value"]}
    assert complete("value.app") == {"start": 6, "matches": ["append"]}
    assert complete("value . app") == {"start": 8, "matches": ["append"]}
    assert complete("_hid")["matches"] == ["_hidden"]
    assert "_hidden" not in complete("")["matches"]
    assert complete("isinst")["matches"] == ["isinstance"]
    assert complete("whil")["matches"] == ["while"]


def test_what_has_no_names(names):
    for code in ("f().x", "'a'.up", "1.x", "missing.x", "(1).re"):
        assert complete(code)["matches"] == [], code


def test_modules(names):
    assert "collections" in complete("import colle")["matches"]
    assert complete("import os, jso")["matches"] == ["json"]
    assert complete("from json import dum") == {"start": 17, "matches": ["dump", "dumps"]}
    assert "path" in complete("import os.pa")["matches"]


def test_answers_are_bounded(names):
    names.update({f"n{number}": 0 for number in range(5_000)})
    names["n" * 1_000] = 0
    found = complete("n")["matches"]
    assert len(found) == 1_000
    assert max(map(len, found)) <= 200


def test_names_that_are_none(names):
    class Liar:
        def __dir__(self):
            return ["real", "other"]

    names[3] = names["liar"] = Liar()
    assert complete("liar.re")["matches"] == ["real"]
    assert complete("lia")["matches"] == ["liar"]


def test_a_class_that_refuses_to_list_is_looked_at(names):
    class Closed:
        part = 1

        def __dir__(self):
            raise SystemExit

    names["closed"] = Closed()
    assert complete("closed.pa")["matches"] == ["part"]


def inspect(code, cursor, detail=False):
    return questions._inspect({"code": code, "cursor": cursor, "detail": detail})


def test_descriptions(names):
    def area(width, height=2):
        """The area."""

    names.update(area=area, number=3)
    found = inspect("x = area(1)", 5)
    assert found["signature"] == "area(width, height=2)"
    assert found["doc"] == "The area."
    assert found["source"] is None
    assert "def area" in inspect("area", 4, detail=True)["source"]
    assert inspect("area(", 5)["name"] == "area"
    assert inspect("number", 0)["text"] == "3"
    assert inspect("nothing", 2) == {"found": False}
    assert inspect("", 0) == {"found": False}


def test_descriptions_that_lie(names):
    class Liar:
        __doc__ = 5
        __signature__ = "text"

        def __repr__(self):
            raise SystemExit

        def __call__(self):
            return None

    names["liar"] = Liar()
    found = inspect("liar", 1, detail=True)
    assert found["type"].endswith("Liar")
    assert found["text"] == "<Liar>"


@pytest.mark.parametrize(
    ("code", "status", "indent"),
    [
        ("x = 1", "complete", ""),
        ("", "complete", ""),
        ("if x:", "incomplete", "    "),
        ("if x:\n    y", "incomplete", "    "),
        ("if x:\n    y\n", "complete", ""),
        ("if x:\n    if y:\n        pass", "incomplete", "    "),
        ("(", "incomplete", ""),
        ("x = = 1", "invalid", ""),
        ("x\0", "invalid", ""),
        ("await x", "complete", ""),
    ],
)
def test_completeness(code, status, indent):
    assert questions._is_complete({"code": code}) == {"status": status, "indent": indent}


def test_values_and_errors(names):
    names["x"] = 20
    found = questions._evaluate({"expressions": {"a": " x + 1", "b": "y", "c": "exit()"}})
    assert found["a"] == (True, 21)
    assert found["b"] == (False, "NameError: name 'y' is not defined")
    assert found["c"][0] is False
