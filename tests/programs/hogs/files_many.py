"""Makes empty files until it is refused. argv: file, directory, symlink or link."""

import errno
import os
import sys


def file(name):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))


def symlink(name):
    os.symlink("target", name)


def link(name):
    if made == 0:
        file(name)
    else:
        os.link("link-0", name)


def directory(name):
    os.mkdir(name)


made = 0
make = globals()[sys.argv[1]]
try:
    while made < 100_000:
        make(f"{sys.argv[1]}-{made}")
        made += 1
except OSError as error:
    print(errno.errorcode[error.errno], made)
