"""The part of ctypes that LightGBM uses to call its C interface."""

# ruff: noqa: N801 (the names of ctypes)

import functools

import numpy as np

from . import _lightgbm

ADDRESS = np.dtype(np.uintp)


def addressof(data):
    memory = data if isinstance(data, np.ndarray) else data.memory
    return memory.__array_interface__["data"][0]


def parameter(value):
    """What a C function gets for a value: a number, which may be an address."""
    if value is None:
        return 0
    if isinstance(value, (np.ndarray, Array, Buffer)):
        return addressof(value)
    return value.parameter() if hasattr(value, "parameter") else value


class Kind(type):
    def __mul__(cls, count):
        return functools.partial(Array, cls, count)


class Simple(metaclass=Kind):
    """A number in memory."""

    def __init__(self, value=0):
        self.memory = np.array([value], self.dtype)

    @property
    def value(self):
        return self.memory[0].item()

    def parameter(self):
        return self.value


class c_int(Simple):
    dtype = np.dtype(np.int32)


c_int32 = c_int


class c_int64(Simple):
    dtype = np.dtype(np.int64)


class c_float(Simple):
    dtype = np.dtype(np.float32)


class c_double(Simple):
    dtype = np.dtype(np.float64)


class c_size_t(Simple):
    dtype = ADDRESS


class Address(Simple):
    """A pointer, which keeps what it points to."""

    dtype = ADDRESS

    def __init__(self, value=None):
        self.target = value
        super().__init__(parameter(value))

    @property
    def value(self):
        return super().value or None

    def parameter(self):
        return self.memory[0].item()


class c_void_p(Address):
    pass


class c_char_p(Address):
    def __init__(self, value=None):
        if isinstance(value, bytes):
            value = np.frombuffer(value + b"\0", np.uint8)
        super().__init__(value)


@functools.cache
def POINTER(kind):
    return Kind(f"pointer to {kind.__name__}", (Address,), {"kind": kind})


class Array:
    def __init__(self, kind, count, *values):
        self.kind, self.kept = kind, {}
        self.memory = np.zeros(count, kind.dtype)
        for index, value in enumerate(values):
            self[index] = value

    def __setitem__(self, index, value):
        if isinstance(index, slice):
            for each, one in zip(range(*index.indices(len(self.memory))), value, strict=True):
                self[each] = one
            return
        if isinstance(value, bytes):
            value = c_char_p(value)
        self.kept[index] = value
        self.memory[index] = parameter(value)


class Buffer:
    """Memory for a text."""

    def __init__(self, size):
        self.memory = np.zeros(size, np.uint8)

    @property
    def value(self):
        return self.memory.tobytes().partition(b"\0")[0]


create_string_buffer = Buffer


class Reference:
    def __init__(self, data):
        self.data = data

    def parameter(self):
        return addressof(self.data)


byref = Reference


def cast(value, kind):
    return kind(value)


def array_at(pointer, count):
    """A copy of the numbers that a pointer points to."""
    dtype = pointer.kind.dtype
    data = _lightgbm.bytes_at(pointer.parameter(), int(count) * dtype.itemsize)
    return np.frombuffer(data, dtype).copy()


def CFUNCTYPE(*types):
    return lambda function: function


class Function:
    def __init__(self, name):
        self.function = getattr(_lightgbm, name)

    def __call__(self, *arguments):
        return self.function(*map(parameter, arguments))


class Library:
    def __getattr__(self, name):
        found = self.__dict__[name] = Function(name)
        return found


py_object = object


class pythonapi:
    PyCapsule_GetPointer = Function("capsule_pointer")


LIBRARY = Library()
