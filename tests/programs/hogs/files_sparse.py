"""Makes files look large without writing much."""

import errno
import os

HUGE = 1 << 40


def seek():
    with open("seek", "wb") as file:
        file.seek(HUGE)
        file.write(b"x")


def truncate_open():
    with open("truncated", "wb") as file:
        file.truncate(HUGE)


def truncate_path():
    open("path", "wb").close()
    os.truncate("path", HUGE)


def write_at():
    descriptor = os.open("at", os.O_CREAT | os.O_RDWR)
    try:
        os.pwrite(descriptor, b"x", HUGE)
    finally:
        os.close(descriptor)


def append():
    with open("appended", "ab") as file:
        file.seek(HUGE)
        file.truncate()


for trick in (seek, truncate_open, truncate_path, write_at, append):
    try:
        trick()
    except OSError as error:
        print(trick.__name__, errno.errorcode[error.errno])
    else:
        print(trick.__name__, "worked")
print(sum(entry.stat().st_size for entry in os.scandir(".")))
