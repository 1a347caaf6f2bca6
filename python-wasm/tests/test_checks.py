"""`belljar check`: checks code without running it."""

from test_policy import RULES


def test_violations_and_missing_modules(runs):
    (runs.workspace / "mine.py").write_text("")
    code = "print(1)\nimport os, polars_of_the_north\nimport mine.sub, json\nopen('x')"
    done = runs(code, check=True, policy=RULES)
    status = done.status()
    assert status["status"] == "policy"
    assert [violation["line"] for violation in status["violations"]] == [2, 2, 3, 4]
    assert done.value() == ["polars_of_the_north"]
    assert done.stdout == ""
    assert done.ended()


def test_nothing_to_say(runs):
    done = runs("import json", check=True, policy=RULES)
    assert done.status()["status"] == "ok"
    assert done.value() == []


def test_without_a_policy_only_modules_count(runs):
    done = runs("import os, polars_of_the_north", check=True)
    assert done.status()["status"] == "ok"
    assert done.value() == ["polars_of_the_north"]


def test_what_is_no_code(runs):
    done = runs("1 +", check=True, policy=RULES)
    assert done.status()["status"] == "syntax"
    assert done.value() == []
    assert done.ended()
