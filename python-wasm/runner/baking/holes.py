"""Fills holes in the heap before an image is captured.

The allocator reuses freed space for the next object of that size. After an image's imports such
holes are everywhere, so the temporary objects of a run would be spread over hundreds of pages,
different ones each time. Every written page costs the host a page fault, a comparison, and a copy.
With the holes filled, the objects of a run lie in one stretch, most of which is free again
afterwards.
"""

import gc
import sys

_ALIGNED = 16
_SMALLEST = 16
_LARGEST = 4_096
_OWN = 4  # bytes of the allocator in each piece
_ROOM = 2 << 20  # bytes that are left for runs, in one piece
_MOST = 1 << 18
_address = id

_held = []


class _State:
    __slots__ = ("edge",)

    def __init__(self):
        self.edge = 0  # beyond it there is nothing that stays


_STATE = _State()


def fill():
    """Fill all holes, and make sure that there is free space after them."""
    if sys.platform != "wasi":
        return  # another allocator
    _STATE.edge = max(_STATE.edge, max(map(_address, gc.get_objects()), default=0))
    empty = bytes.__basicsize__ + _OWN
    # Larger holes first: their remainders are smaller holes.
    for size in range(_LARGEST, _SMALLEST, -_ALIGNED):
        _fill(bytes, size - empty)
    _fill(object)
    # Zeroed, and free again.
    bytes(_ROOM)


def _fill(make, *arguments):
    """Fill holes with pieces of this size, until one lies after everything that stays."""
    while len(_held) < _MOST:
        piece = make(*arguments)
        if _address(piece) >= _STATE.edge:
            return
        _held.append(piece)
