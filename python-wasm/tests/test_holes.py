"""Filling holes in a simulated heap."""

import pytest

from _belljar.baking import holes


class Heap:
    """Holes first, then space after everything."""

    def __init__(self, addresses):
        self.addresses = list(addresses)

    def piece(self):
        return Piece(self.addresses.pop(0) if self.addresses else holes._STATE.edge)


class Piece:
    def __init__(self, address):
        self.address = address


@pytest.fixture
def held(monkeypatch):
    monkeypatch.setattr(holes, "_address", lambda piece: piece.address)
    monkeypatch.setattr(holes._STATE, "edge", 100_000)
    held = []
    monkeypatch.setattr(holes, "_held", held)
    return held


def test_every_hole_is_filled(held):
    gaps = [5_000, 64, 8_192, 96, 128]
    holes._fill(Heap(gaps).piece)
    assert [piece.address for piece in held] == gaps


def test_what_lies_behind_is_free_again(held):
    holes._fill(Heap([64, 100_000, 96]).piece)
    assert [piece.address for piece in held] == [64]


def test_it_comes_to_an_end(held, monkeypatch):
    monkeypatch.setattr(holes, "_MOST", 1_000)
    holes._fill(Heap([64] * 2_000).piece)
    assert len(held) == 1_000


def test_other_allocators_are_left_alone(held):
    holes.fill()
    assert held == []
