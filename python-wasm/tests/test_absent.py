"""Replacements for functions that the build lacks behave like the originals."""

import hashlib
import io
import itertools

import pytest

from _belljar.stand_ins import absent


class Empty:
    """A module without the function."""

    __name__ = "hashlib"
    new = staticmethod(hashlib.new)


@pytest.mark.parametrize("name", ["sha1", "sha256", "sha512", "sha3_256", "md5"])
def test_pbkdf2_is_the_usual_one(name):
    module = Empty()
    absent.patch_hashlib(module)
    passwords = (b"", b"secret", bytearray(b"x" * 200))
    for password, iterations, size in itertools.product(passwords, (1, 2, 37), (None, 1, 20, 130)):
        found = module.pbkdf2_hmac(name, password, b"salt", iterations, size)
        assert found == hashlib.pbkdf2_hmac(name, password, b"salt", iterations, size)


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing", b"", b"", 1),
        (b"sha1", b"", b"", 1),
        ("sha1", "text", b"", 1),
        ("sha1", b"", b"", 0),
        ("sha1", b"", b"", 1, 0),
        ("sha1", b"", b"", 1.5),
    ],
)
def test_pbkdf2_refuses_what_the_usual_one_refuses(arguments):
    module = Empty()
    absent.patch_hashlib(module)
    with pytest.raises(Exception) as usual:  # noqa: PT011
        hashlib.pbkdf2_hmac(*arguments)
    kind = ValueError if issubclass(usual.type, ValueError) else usual.type
    with pytest.raises(kind):
        module.pbkdf2_hmac(*arguments)


def test_disk_usage(monkeypatch, tmp_path):
    module = Empty()
    monkeypatch.setattr(absent.door, "ask", lambda question: [100, 30])
    absent.patch_shutil(module)
    assert module.disk_usage(tmp_path) == (100, 30, 70)
    assert module.disk_usage(str(tmp_path)).free == 70
    with pytest.raises(FileNotFoundError):
        module.disk_usage(tmp_path / "nothing")


@pytest.fixture
def numpy():
    return pytest.importorskip("numpy")


DTYPES = ["i1", "<i4", ">f8", "S3", "<U2", "M8[D]", "f4,i2", "?"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_plain_files_are_the_usual_ones(numpy, tmp_path, dtype):
    array = numpy.zeros(12, dtype)
    array[3:5] = numpy.ones(2, dtype)
    fromfile = absent.reader(numpy, numpy.fromfile)
    tofile = absent.writer(numpy, numpy.ndarray.tofile)
    for one in (array, array.reshape(3, 4).T, array[::-2], array[:0]):
        one.tofile(tmp_path / "usual")
        tofile(one, tmp_path / "ours")
        assert (tmp_path / "ours").read_bytes() == (tmp_path / "usual").read_bytes()
    array.tofile(tmp_path / "usual")
    path = str(tmp_path / "usual")
    for options in ({}, {"count": 5}, {"count": 0}, {"count": 50}, {"offset": array.itemsize * 2}):
        found, usual = fromfile(path, dtype, **options), numpy.fromfile(path, dtype, **options)
        assert found.tobytes() == usual.tobytes()
        assert found.dtype == usual.dtype
        assert found.flags.writeable


def test_open_files_and_their_place(numpy, tmp_path):
    fromfile = absent.reader(numpy, numpy.fromfile)
    tofile = absent.writer(numpy, numpy.ndarray.tofile)
    path = tmp_path / "file"
    places = []
    for write, read in ((numpy.ndarray.tofile, numpy.fromfile), (tofile, fromfile)):
        with path.open("wb") as file:
            file.write(b"head")
            write(numpy.arange(5, dtype="<i2"), file)
            file.write(b"tail!")
        assert path.read_bytes() == b"head\0\0\1\0\2\0\3\0\4\0tail!"
        with path.open("rb") as file:
            file.seek(4)
            first = read(file, "<i2", 2).tolist()
            places.append((first, file.tell(), read(file, "<i2").tolist(), file.tell()))
    assert places[0] == places[1]


@pytest.mark.parametrize("options", [{"sep": " "}, {"sep": ",\n"}, {"sep": ";", "format": "%.2f"}])
def test_text(numpy, tmp_path, options):
    tofile = absent.writer(numpy, numpy.ndarray.tofile)
    array = numpy.array([[1.5, -2], [3, 1e30]])
    array.tofile(tmp_path / "usual", **options)
    tofile(array, tmp_path / "ours", **options)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "usual").read_bytes()
    fromfile = absent.reader(numpy, numpy.fromfile)
    found = fromfile(tmp_path / "ours", sep=options["sep"].strip() or " ")
    assert numpy.allclose(found, array.ravel())


def test_what_is_refused(numpy, tmp_path):
    fromfile = absent.reader(numpy, numpy.fromfile)
    tofile = absent.writer(numpy, numpy.ndarray.tofile)
    with pytest.raises(io.UnsupportedOperation):
        tofile(numpy.arange(3), io.BytesIO())
    with pytest.raises(io.UnsupportedOperation):
        fromfile(io.BytesIO(b"abc"))
    with pytest.raises(OSError, match="object arrays"):
        tofile(numpy.array([None]), tmp_path / "x")
    (tmp_path / "x").write_bytes(bytes(16))
    with pytest.raises(ValueError, match="object array"):
        fromfile(tmp_path / "x", object)
    with pytest.raises(FileNotFoundError):
        fromfile(tmp_path / "nothing")
