"""Changes what lies outside the working directory. argv: the absolute path of a secret file."""

import os
import shutil
import sys

from attempts import attempt, upwards

SECRET = sys.argv[1]
OUTSIDE = os.path.dirname(SECRET)


def write(path, mode="w"):
    with open(path, mode) as file:
        file.write("planted")
    return path


def truncate(path):
    os.truncate(path, 1)
    return True


def from_above():
    here = os.getcwd()
    os.chdir(OUTSIDE)
    try:
        return write("planted-from-above.txt")
    finally:
        os.chdir(here)


def touched():
    os.utime(SECRET, (0, 0))
    return os.stat(SECRET).st_mtime == 0


def permitted():
    os.chmod(SECRET, 0o777)
    return os.stat(SECRET).st_mode & 0o777 == 0o777


def directory():
    os.mkdir(OUTSIDE + "/planted-directory")
    return True


def removed_directory():
    shutil.rmtree(OUTSIDE + "/planted-directory")
    return True


def removed(path):
    os.unlink(path)
    return True


attempt("new file", lambda: write(OUTSIDE + "/planted.txt"))
attempt("new file by dots", lambda: write(os.path.dirname(upwards("secret.txt")) + "/planted-2.txt"))
attempt("new file from above", from_above)
attempt("new directory", directory)
attempt("removed directory", removed_directory)
attempt("appended", lambda: write(SECRET, "a"))
attempt("touched", touched)
attempt("permitted", permitted)
attempt("truncated", lambda: truncate(SECRET))
attempt("overwritten", lambda: write(SECRET))
attempt("removed", lambda: removed(SECRET))
