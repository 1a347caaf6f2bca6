"""Objects shared by processes, for `multiprocessing`: queues, locks, values, pipes.

Arguments to another process are copied, as usual, but copies of a shared object refer to the same
one.
"""

import array
import collections
import copyreg
import itertools
import sys
import types
import weakref

from _belljar.protocol.interrupt import Interrupted
from _belljar.stand_ins import in_place
from _belljar.stand_ins.in_place import STATE, until

_modules = sys.modules
_shared = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


class _Shared:
    """A shared object: its copies are the same object."""

    def __reduce_ex__(self, _):
        key = self.__dict__.get("_shared_as")
        if key is None:
            key = self._shared_as = next(_numbers)
            _shared[key] = self
        return _find, (key,)


def _find(key):
    return _shared[key]


def register():
    """Make `_find` available to `pickle` while the runner is hidden."""
    copyreg._belljar_shared = _find
    _find.__module__, _find.__qualname__ = "copyreg", "_belljar_shared"


def transfer(value):
    """`value` as another process would receive it."""
    import pickle

    return pickle.loads(pickle.dumps(value))  # noqa: S301 (what it has made itself)


def copy(value):
    """`value` as another process would receive it; unchanged if it cannot be copied."""
    try:
        return transfer(value)
    except Interrupted:
        raise
    except Exception:
        return value


def make_classes():
    """The classes, created once `multiprocessing` is imported."""
    queue, threading = _modules["queue"], _modules["threading"]

    class Queue(_Shared, queue.Queue):
        def put(self, obj, block=True, timeout=None):
            super().put(copy(obj), block, timeout)

        def close(self):
            return

        join_thread = cancel_join_thread = close

    class SimpleQueue(_Shared, queue._PySimpleQueue):
        def put(self, obj):
            super().put(copy(obj))

        def close(self):
            return

    class Lock(_Shared, in_place.Lock):
        __slots__ = ("__dict__",)

    class RLock(_Shared):
        def __init__(self):
            self._lock = threading.RLock()
            self.acquire, self.release = self._lock.acquire, self._lock.release

        def __enter__(self):
            return self._lock.acquire()

        def __exit__(self, *_):
            self._lock.release()

    found = {"Queue": Queue, "JoinableQueue": Queue, "SimpleQueue": SimpleQueue}
    found |= {"Lock": Lock, "RLock": RLock}
    for name in ("Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier"):
        found[name] = type(name, (_Shared, getattr(threading, name)), {})
    for name, cls in found.items():
        cls.__module__, cls.__qualname__ = "multiprocessing.context", name
    return found


class _Boxed(_Shared):
    """A value or an array in shared memory."""

    def __init__(self, values, has_lock, is_text=False):
        self._values = values
        self._is_text = is_text
        self._lock = _modules["threading"].RLock() if has_lock else None

    def get_lock(self):
        return self._lock

    def get_obj(self):
        return self

    def acquire(self, *args):
        return self._lock.acquire(*args)

    def release(self):
        self._lock.release()

    def __enter__(self):
        return self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


class _Value(_Boxed):
    @property
    def value(self):
        return bytes(self._values) if self._is_text else self._values[0]

    @value.setter
    def value(self, value):
        self._values[0] = ord(value) if self._is_text else value


class _Array(_Boxed):
    def __len__(self):
        return len(self._values)

    def __getitem__(self, where):
        found = self._values[where]
        if isinstance(where, slice):
            return bytes(found) if self._is_text else list(found)
        return bytes((found,)) if self._is_text else found

    def __setitem__(self, where, value):
        if isinstance(where, slice):
            if self._is_text:
                value = bytes(value)
            value = self._values[:0] + type(self._values)(*_typed(self._values, value))
            if len(self._values[where]) != len(value):
                raise ValueError("Can only assign sequence of same size")
        elif self._is_text:
            value = ord(value)
        self._values[where] = value

    def __iter__(self):
        return (self[number] for number in range(len(self)))

    @property
    def value(self):
        return bytes(self._values).partition(b"\0")[0]

    @value.setter
    def value(self, value):
        self._values[: len(value)] = value

    raw = property(lambda self: bytes(self._values))


def _typed(like, values):
    return (like.typecode, values) if isinstance(like, array.array) else (values,)


_CODES = {
    "c_bool": "?", "c_char": "c", "c_byte": "b", "c_ubyte": "B", "c_short": "h", "c_ushort": "H",
    "c_int": "i", "c_uint": "I", "c_long": "q", "c_ulong": "Q", "c_longlong": "q",
    "c_ulonglong": "Q", "c_float": "f", "c_double": "d", "c_int32": "i", "c_int64": "q",
    "c_uint32": "I", "c_uint64": "Q", "c_int8": "b", "c_uint8": "B", "c_int16": "h",
    "c_uint16": "H", "c_size_t": "Q", "c_ssize_t": "q",
}  # fmt: skip


def _cells(kind, values):
    """The storage for a type code, or for a type of `ctypes`; and whether it is text."""
    code = kind if isinstance(kind, str) else _CODES.get(kind.__name__)
    # A C long of the usual build, with 64 bits.
    code = {"l": "q", "L": "Q"}.get(code, code)
    if code == "c":
        return bytearray(b"".join(values) if isinstance(values, list) else values), True
    if code == "?":
        return [bool(value) for value in values], False
    if code is None or code not in array.typecodes:
        raise TypeError(f"no values of {kind!r} can be shared here")
    return array.array(code, values), False


def make_value(self, typecode_or_type, *args, lock=True):
    """Returns a synchronized shared object."""
    values, is_text = _cells(typecode_or_type, args[:1] or [_zero(typecode_or_type)])
    return _Value(values, lock is not False, is_text)


def make_array(self, typecode_or_type, size_or_initializer, *, lock=True):
    """Returns a synchronized shared array."""
    given = size_or_initializer
    if isinstance(given, int):
        given = [_zero(typecode_or_type)] * given
    values, is_text = _cells(typecode_or_type, given)
    return _Array(values, lock is not False, is_text)


def _zero(kind):
    return b"\0" if kind == "c" or getattr(kind, "__name__", "") == "c_char" else 0


class _Connection(_Shared):
    """One end of a pipe."""

    def __init__(self, inbox, outbox, readable=True, writable=True):
        self._inbox, self._outbox = inbox, outbox
        self.readable, self.writable = readable, writable
        self.closed = False
        self._other = None

    def _check(self, may):
        if self.closed:
            raise OSError("handle is closed")
        if not may:
            raise OSError("connection is of the other direction")

    def send(self, obj):
        import pickle

        self._check(self.writable)
        self._outbox.append(pickle.dumps(obj))

    def send_bytes(self, buf, offset=0, size=None):
        self._check(self.writable)
        end = None if size is None else offset + size
        self._outbox.append(bytes(memoryview(buf)[offset:end]))

    def _receive(self):
        self._check(self.readable)
        if not self._inbox and self._other.closed and not STATE.waiting:
            raise EOFError
        until(lambda: bool(self._inbox), "Connection.recv()")
        return self._inbox.popleft()

    def recv(self):
        import pickle

        return pickle.loads(self._receive())  # noqa: S301 (the code's own)

    def recv_bytes(self, maxlength=None):
        return self._receive()

    def poll(self, timeout=0.0):
        self._check(self.readable)
        return until(lambda: bool(self._inbox), "Connection.poll()", timeout)

    def close(self):
        # A process closes its own end of it: the other one stays open.
        if not STATE.stack:
            self.closed = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def make_pipe(self, duplex=True):
    """Returns two connection objects connected by a pipe."""
    there, back = collections.deque(), collections.deque()
    first = _Connection(back, there, writable=duplex)
    second = _Connection(there, back, readable=duplex)
    if not duplex:
        first._inbox, second._outbox = back, back
    first._other, second._other = second, first
    return first, second


class List(_Shared, list):
    def __deepcopy__(self, _):
        return self

    def _callmethod(self, name, args=(), kwargs=types.MappingProxyType({})):
        return getattr(self, name)(*args, **kwargs)

    def _getvalue(self):
        return list(self)


class Dict(_Shared, dict):
    def _getvalue(self):
        return dict(self)


class _Namespace(_Shared):
    def __repr__(self):
        shown = (f"{k}={v!r}" for k, v in self.__dict__.items() if not k.startswith("_"))
        return f"Namespace({', '.join(shown)})"


class Manager:
    """The contents of a manager's process."""

    def __init__(self, context):
        self._context = context
        for name in ("Lock", "RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore"):
            setattr(self, name, getattr(context, name))
        self.Barrier, self.Queue = context.Barrier, context.Queue
        self.JoinableQueue, self.Pool = context.JoinableQueue, context.Pool

    def list(self, values=()):
        return List(values)

    def dict(self, *args, **kwargs):
        return Dict(*args, **kwargs)

    def Namespace(self, **values):
        space = _Namespace()
        space.__dict__.update(values)
        return space

    def Value(self, typecode, value, lock=True):
        return _Value([value], True)

    def Array(self, typecode, sequence, lock=True):
        return List(sequence)

    def start(self, *_):
        return

    def shutdown(self):
        return

    connect = join = start

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return
