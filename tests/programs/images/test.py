"""What people do with the packages of `test`. Prints the same on the host's Python."""

import contextlib
import io
import pathlib

import coverage
import hypothesis
import pytest
from hypothesis import strategies

pathlib.Path("shop.py").write_text("""
def price(amount, discount=0):
    if amount < 0:
        raise ValueError("a negative amount")
    if discount:
        return amount * (1 - discount)
    return amount
""")
pathlib.Path("test_shop.py").write_text("""
import pytest
from hypothesis import given, strategies
from shop import price

@given(strategies.integers(min_value=0))
def test_no_discount(amount):
    assert price(amount) == amount

@given(strategies.lists(strategies.text(), min_size=1))
def test_found_by_hypothesis(texts):
    assert sorted(texts)[0] == texts[0]

@pytest.mark.parametrize("amount", [1, 2, 3])
def test_parameters(amount, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr("shop.price", len)
    print("shown")
    assert capsys.readouterr().out == "shown\\n" and amount < 3

def test_raises():
    with pytest.raises(ValueError, match="negative"):
        price(-1)

@pytest.mark.skip(reason="later")
def test_later(): ...

@pytest.mark.xfail
def test_expected(): assert price(0.1) + price(0.2) == 0.3

async def test_not_run(): ...
""")


class Seen:
    """Collects the results."""

    results = []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome == "skipped":
            self.results.append((report.nodeid, report.outcome))


measured = coverage.Coverage(data_file=None, include=["shop.py"], config_file=False)
shown = io.StringIO()
with contextlib.redirect_stdout(shown):
    measured.start()
    status = pytest.main(["-q", "-p", "no:randomly", "test_shop.py"], plugins=[Seen()])
    measured.stop()
print(repr(status), *Seen.results, sep="\n")
print("Falsifying example" in shown.getvalue())
print(measured.report(file=io.StringIO(), show_missing=True), measured.analysis("shop.py")[2])


@hypothesis.settings(derandomize=True, database=None)
@hypothesis.given(strategies.integers())
def is_small(number):
    assert number < 1000


try:
    is_small()
except AssertionError as error:
    print(error.__notes__[0].splitlines()[:2])
