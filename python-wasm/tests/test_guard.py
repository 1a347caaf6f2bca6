"""A failure affects only its own item."""

import pytest

from _belljar.protocol import guard, interrupt


def _raise(error):
    raise error


def test_a_value_comes_back(door):
    assert guard.attempt("x", lambda a: a + 1, 2) == 3
    assert guard.quietly(lambda a: a + 1, 2) == 3
    assert door.frames == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no"), "It: ValueError: no"),
        (SystemExit(3), "It: SystemExit: 3"),
        (KeyboardInterrupt(), "It: KeyboardInterrupt"),
        (GeneratorExit(), "It: GeneratorExit"),
    ],
)
def test_everything_is_caught_and_told(door, error, message):
    assert guard.attempt("It", _raise, error) is None
    assert guard.quietly(_raise, error) is None
    assert door.of("w") == [{"message": message}]
    assert interrupt.STATE.phase == interrupt.IDLE


def test_errors_that_cannot_be_shown(door):
    for bad in (SystemExit, ValueError, KeyboardInterrupt):
        cls = type("Bad", (Exception,), {"__str__": lambda self, bad=bad: _raise(bad())})
        guard.attempt("It", _raise, cls())
    assert door.of("w") == [{"message": "It: Bad: <exception str() failed>"}] * 3


def test_a_long_message_is_cut(door):
    guard.attempt("It", _raise, ValueError("x" * 10**6))
    assert len(door.of("w")[0]["message"]) < 600


def test_after_an_interrupt_nothing_is_attempted(door):
    def interrupted():
        interrupt._handle(2, None)

    assert guard.attempt("It", interrupted) is None
    assert guard.attempt("More", list) is None
    assert guard.quietly(list) is None
    assert door.of("w") == [{"message": "It: interrupted"}]
    interrupt.forget()
    assert guard.attempt("More", list) == []


def test_between_items_an_interrupt_only_stops_the_rest(door):
    interrupt._handle(2, None)
    assert guard.attempt("It", list) is None
    interrupt.forget()


def test_a_door_that_refuses_is_survived(door):
    door.refuses = True
    assert guard.attempt("It", _raise, ValueError()) is None
    guard.note("x")
