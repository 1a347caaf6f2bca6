"""Replacements for functions that this build lacks, or that cannot work here.

`shutil.disk_usage` needs a system call that WASI lacks, and `hashlib.pbkdf2_hmac` needs OpenSSL.
numpy reads and writes plain files through a duplicate of the descriptor, which WASI does not
support.
"""

import functools
import gc
import operator
import sys
import warnings
from collections import namedtuple
from os import fspath as _encode_path
from posix import stat as _status

from _belljar.protocol import door


def patch_shutil(module):
    """For `shutil`."""
    if hasattr(module, "disk_usage"):
        return
    usage = namedtuple("usage", "total used free")
    usage.__module__ = "shutil"

    def disk_usage(path):
        """Return disk usage statistics about the given path.

        Returned value is a named tuple with attributes 'total', 'used' and 'free', which are the
        bytes that the files of this run may have, have, and may still have.
        """
        _status(path)
        total, used = door.ask(b"q")
        return usage(total, used, total - used)

    _adopt(module, disk_usage)


def patch_hashlib(module):
    """For `hashlib`."""
    if hasattr(module, "pbkdf2_hmac"):
        return
    new = module.new

    def pbkdf2_hmac(hash_name, password, salt, iterations, dklen=None):
        """Password based key derivation function 2 (PKCS #5 v2.0), with HMAC as pseudorandom
        function."""
        if not isinstance(hash_name, str):
            kind = type(hash_name).__name__
            raise TypeError(f"pbkdf2_hmac() argument 'hash_name' must be str, not {kind}")
        inner, outer = new(hash_name), new(hash_name)
        key, salt = bytes(memoryview(password)), bytes(memoryview(salt))
        iterations = operator.index(iterations)
        size = inner.digest_size if dklen is None else operator.index(dklen)
        if iterations < 1:
            raise ValueError("iteration value must be greater than 0.")
        if size < 1:
            raise ValueError("key length must be greater than 0.")
        if len(key) > inner.block_size:
            key = new(hash_name, key).digest()
        key = key.ljust(inner.block_size, b"\0")
        inner.update(bytes(byte ^ 0x36 for byte in key))
        outer.update(bytes(byte ^ 0x5C for byte in key))
        derived, block = b"", 1
        while len(derived) < size:
            derived += _block(inner, outer, salt + block.to_bytes(4, "big"), iterations)
            block += 1
        return derived[:size]

    _adopt(module, pbkdf2_hmac)


def _block(inner, outer, text, iterations):
    copy_inner, copy_outer, number = inner.copy, outer.copy, int.from_bytes
    total = 0
    for _ in range(iterations):
        hashed = copy_inner()
        hashed.update(text)
        keyed = copy_outer()
        keyed.update(hashed.digest())
        text = keyed.digest()
        total ^= number(text, "big")
    return total.to_bytes(len(text), "big")


def patch_numpy(module):
    """For `numpy`: `fromfile` and `ndarray.tofile`, with the file's own methods."""
    if sys.platform != "wasi":
        return
    for place in ("numpy", "numpy._core.multiarray", "numpy._core.numeric"):
        namespace = sys.modules.get(place)
        if hasattr(namespace, "fromfile"):
            namespace.fromfile = reader(module, namespace.fromfile)
    put_into_class(module.ndarray, "tofile", writer(module, module.ndarray.tofile))


def reader(numpy, usual):
    """Replaces `numpy.fromfile`."""

    @functools.wraps(usual)
    def fromfile(file, dtype=float, count=-1, sep="", offset=0, *, like=None):
        if like is not None:
            return usual(file, dtype, count, sep, offset, like=like)
        if isinstance(file, (str, bytes)) or hasattr(file, "__fspath__"):
            with open(_encode_path(file), "rb") as opened:
                return _read(numpy, opened, dtype, count, sep, offset)
        file.fileno()  # what is no file raises what it raised before
        return _read(numpy, getattr(file, "buffer", file), dtype, count, sep, offset)

    return fromfile


def _read(numpy, file, dtype, count, sep, offset):
    dtype, count = numpy.dtype(dtype), operator.index(count)
    if offset and sep:
        raise TypeError("'offset' argument only permitted for binary files")
    if offset:
        file.seek(offset, 1)
    if sep:
        text = file.read().decode("latin-1")
        return numpy.fromstring(text, dtype, count, sep=sep)
    if dtype.hasobject:
        raise ValueError("Cannot read into object array")
    if dtype.itemsize == 0:
        raise ValueError("The elements are 0-sized.")
    start = file.tell()
    data = file.read(-1 if count < 0 else count * dtype.itemsize)
    whole = len(data) // dtype.itemsize * dtype.itemsize
    if whole != len(data):
        file.seek(start + whole)
    return numpy.frombuffer(bytearray(data[:whole]), dtype)


def writer(numpy, usual):
    """Replaces `numpy.ndarray.tofile`."""

    @functools.wraps(usual)
    def tofile(self, fid, sep="", format="%s"):
        if not isinstance(self, numpy.ndarray):
            return usual(self, fid, sep, format)
        if isinstance(fid, (str, bytes)) or hasattr(fid, "__fspath__"):
            with open(_encode_path(fid), "wb") as file:
                _write(numpy, self, file, sep, format)
            return None
        fid.fileno()
        fid.flush()
        file = getattr(fid, "buffer", fid)
        _write(numpy, self, file, sep, format)
        file.flush()
        return None

    return tofile


def _write(numpy, array, file, sep, format):
    if sep:
        items = numpy.ndarray.ravel(array).tolist()
        texts = [format % (item,) if format else str(item) for item in items]
        file.write(sep.join(texts).encode())
        return
    if array.dtype.hasobject:
        raise OSError("cannot write object arrays to a file in binary mode")
    view = memoryview(numpy.ndarray.tobytes(array))
    while view:
        view = view[file.write(view) :]


def put_into_class(cls, name, value):
    """Add an attribute to a class defined in C."""
    (held,) = (one for one in gc.get_referents(cls.__dict__) if type(one) is dict)
    held[name] = value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys._clear_type_cache()


def _adopt(module, function):
    function.__module__ = module.__name__
    function.__qualname__ = function.__name__
    setattr(module, function.__name__, function)
    names = getattr(module, "__all__", None)
    if names is not None and function.__name__ not in names:
        module.__all__ = type(names)([*names, function.__name__])
