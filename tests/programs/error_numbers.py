"""Errors of random operations on files, and the names and texts of error numbers."""

import errno
import io
import os
import random
import shutil

CODES = (
    "E2BIG EACCES EAGAIN EBADF EBUSY ECANCELED ECHILD ECONNREFUSED ECONNRESET EDEADLK EDOM EDQUOT "
    "EEXIST EFAULT EFBIG EINTR EINVAL EIO EISDIR ELOOP EMFILE EMLINK ENAMETOOLONG ENFILE ENODEV "
    "ENOENT ENOEXEC ENOLCK ENOMEM ENOSPC ENOSYS ENOTDIR ENOTEMPTY ENOTSUP ENOTTY ENXIO EOPNOTSUPP "
    "EOVERFLOW EPERM EPIPE ERANGE EROFS ESPIPE ESRCH ETIMEDOUT ETXTBSY EWOULDBLOCK EXDEV"
).split()
for name in CODES:
    number = getattr(errno, name)
    print(name, number, errno.errorcode[number], os.strerror(number), OSError(number, "").__class__)
for name in sorted(set(dir(errno)) - {"EHWPOISON"}):  # since 3.14
    if name[0] == "E":
        number = getattr(errno, name)
        print(name, number, errno.errorcode[number], OSError(number, "").__class__)
for base, exponent in ((2.0, 1e6), (10.0, 400), (-1e300, 3)):
    try:
        base**exponent
    except OverflowError as error:
        print(error.args)



class Raw(io.RawIOBase):
    """A file whose reads and writes fail."""

    def __init__(self, number):
        self.numbers = [number, errno.EIO]

    def readable(self):
        return True

    def writable(self):
        return True

    def readinto(self, _buffer):
        if len(self.numbers) > 1:
            raise OSError(self.numbers.pop(0), "")
        return 0

    def write(self, _data):
        raise OSError(self.numbers.pop(0), "")


# An interrupted call is tried again.
for name in ("EINTR", "EFBIG", "EAGAIN"):
    for file in (io.BufferedReader(raw := Raw(getattr(errno, name))), io.BufferedWriter(raw)):
        try:
            print(name, file.read(1) if isinstance(file, io.BufferedReader) else file.write(b"xx"))
            file.flush()
        except OSError as error:
            print(name, type(error), error.errno)
        file.detach() if isinstance(file, io.BufferedReader) else None

NAMES = ["a", "b", "c", "a/b", "a/b/c", "b/a", "l", "m", "l/a", "missing/x", "", ".", "a/", "n" * 256]
OPERATIONS = {
    "open": lambda one, _: open(one).close(),
    "write": lambda one, _: open(one, "w").close(),
    "exclusive": lambda one, _: open(one, "x").close(),
    "append": lambda one, _: open(one, "ab").close(),
    "mkdir": lambda one, _: os.mkdir(one),
    "makedirs": lambda one, _: os.makedirs(one),
    "rmdir": lambda one, _: os.rmdir(one),
    "unlink": lambda one, _: os.unlink(one),
    "rename": lambda one, two: os.rename(one, two),
    "replace": lambda one, two: os.replace(one, two),
    "symlink": lambda one, two: os.symlink(one, two),
    "readlink": lambda one, _: os.readlink(one),
    "listdir": lambda one, _: sorted(os.listdir(one)),
    "scandir": lambda one, _: sorted(e.name for e in os.scandir(one)),
    "stat": lambda one, _: os.path.isfile(one) and os.stat(one).st_size or os.stat(one) and None,
    "lstat": lambda one, _: os.lstat(one) and None,
    "truncate": lambda one, _: os.truncate(one, 3),
    "copy": lambda one, two: shutil.copyfile(one, two),
    "rmtree": lambda one, _: os.path.islink(one) or shutil.rmtree(one),
    "chdir": lambda one, _: os.chdir(one) or os.chdir(HOME),
}
HOME = os.getcwd()
draw = random.Random(5)
for turn in range(3000):
    operation = draw.choice(list(OPERATIONS))
    # Linux looks at an empty new name late.
    one, two = draw.choice(NAMES), draw.choice([name for name in NAMES if name])
    try:
        said = OPERATIONS[operation](one, two)
    except OSError as error:
        said = type(error), error.errno, error.strerror, error.filename, error.filename2, str(error)
    except Exception as error:
        said = type(error), str(error)
    print(turn, operation, one[:9], two[:9], said)
    if turn % 100 == 99:
        for name in os.listdir("."):
            if os.path.isdir(name) and not os.path.islink(name):
                shutil.rmtree(name)
            else:
                os.unlink(name)
