"""What an image holds, made immortal.

CPython counts references in the objects themselves, so that code which merely looks at an object
writes to the page that it is on. Every page of the image that is written costs the host a fault, a
look at it, and a copy, in each run. What CPython takes for immortal it does not count (PEP 683).
Which objects these are says a number in place of the count, and the host writes it: hardly anything
of an image is given up before the process ends, anyway.
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
    """Have the host make everything immortal that lives now."""
    if sys.platform != "wasi":
        return  # nobody could write the numbers
    # What an image was made on top of may have got new parts.
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
    """Do the same for the parts of what the collector does not know."""
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
    # The caller holds them: what the host is told of is there until it has answered.
    send_bytes(b"y", array("I", map(_address, objects)).tobytes())
