"""Makes the objects of an image immortal.

CPython keeps reference counts in the objects, so code that merely reads an object writes to its
page. Every written page of the image costs the host a page fault, a comparison, and a copy, in each
run. CPython does not count references to immortal objects (PEP 683). A special count marks them,
and the host writes it: hardly any object of an image is freed before the process ends anyway.
"""

import gc
import sys
import types
from array import array

from _belljar.protocol.door import send_bytes

_AT_ONCE = 1 << 12  # containers whose parts are told at once
_PARTS = (tuple, types.CodeType)
_address = id
_is_tracked = gc.is_tracked
_parts_of = gc.get_referents


def declare():
    """Have the host make all live objects immortal."""
    if sys.platform != "wasi":
        return  # the host cannot write the counts
    # The image's base may have got new parts.
    gc.unfreeze()
    everything = gc.get_objects()
    for start in range(0, len(everything), _AT_ONCE):
        some = everything[start : start + _AT_ONCE]
        parts = _parts_of(*some)
        _tell(some)
        _tell(parts)
        _descend(parts)
    if not sys._is_immortal(declare):
        raise RuntimeError("the objects of the image have not become immortal")


def _descend(parts):
    """Do the same for parts that the garbage collector does not track."""
    while parts := [part for part in parts if type(part) in _PARTS and not _is_tracked(part)]:
        parts = [held for part in parts for held in _held_by(part)]
        _tell(parts)


def _held_by(part):
    if type(part) is tuple:
        return part
    return (
        part.co_consts,
        part.co_names,
        part.co_name,
        part.co_qualname,
        part.co_filename,
        part.co_linetable,
        part.co_exceptiontable,
        *part.co_consts,
        *part.co_names,
    )


def _tell(objects):
    # The caller references them, so that they exist until the host has answered.
    send_bytes(b"y", array("I", map(_address, objects)).tobytes())
