"""Holes in the heap, filled before an image is taken.

Where something was freed, the allocator puts the next thing of that size. After the imports of an
image there are such holes everywhere, so what a run needs for a moment comes to lie on hundreds of
pages, on others each time. Every page that is written costs the host: a fault, a look at it, and a
copy. With the holes filled, what a run needs lies in one stretch, and most of it is free again
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
    """Fill all holes, and see to it that there is room behind them."""
    if sys.platform != "wasi":
        return  # another allocator
    _STATE.edge = max(_STATE.edge, max(map(_address, gc.get_objects()), default=0))
    empty = bytes.__basicsize__ + _OWN
    # Larger holes first, of which what is left becomes smaller ones.
    for size in range(_LARGEST, _SMALLEST, -_ALIGNED):
        _fill(bytes, size - empty)
    _fill(object)
    # All zeros, and free again.
    bytes(_ROOM)


def _fill(make, *arguments):
    """Fill holes for such pieces, until one comes to lie behind all that stays."""
    while len(_held) < _MOST:
        piece = make(*arguments)
        if _address(piece) >= _STATE.edge:
            return
        _held.append(piece)
