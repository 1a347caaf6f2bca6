"""Reads what lies outside the working directory. argv: the absolute path of a secret file."""

import glob
import os
import pathlib
import sys

from attempts import attempt, read, upwards

SECRET = sys.argv[1]
HERE = os.getcwd()


def through_directory_descriptor():
    inside = os.open(".", os.O_RDONLY)
    return read_descriptor(os.open(upwards("secret.txt"), os.O_RDONLY, dir_fd=inside))


def through_parent_descriptor():
    above = os.open("..", os.O_RDONLY)
    return os.listdir(above)


def read_descriptor(descriptor):
    with open(descriptor, "rb") as file:
        return file.read()


def from_above():
    os.chdir("..")
    try:
        return read(SECRET) and "secret.txt" in os.listdir(os.path.dirname(SECRET))
    finally:
        os.chdir(HERE)


def below_and_up():
    os.makedirs("a/b", exist_ok=True)
    return read("a/b/../../" + upwards("secret.txt"))


def walk():
    return [name for name, _, files in os.walk(os.path.dirname(SECRET)) if "secret.txt" in files]


attempt("absolute secret", lambda: read(SECRET))
attempt("relative secret", lambda: read(upwards("secret.txt")))
attempt("secret by working directory", lambda: read(f"{HERE}/{upwards('secret.txt')}"))
attempt("secret below and up", below_and_up)
attempt("secret by pathlib", lambda: pathlib.Path(SECRET).read_bytes())
attempt("secret by directory descriptor", through_directory_descriptor)
attempt("parent's descriptor", through_parent_descriptor)
attempt("secret from above", from_above)
attempt("secret by walk", walk)
attempt("secret's size", lambda: os.stat(SECRET).st_size)
attempt("secret's existence", lambda: os.path.exists(SECRET))
attempt("parent's listing", lambda: "secret.txt" in os.listdir(os.path.dirname(SECRET)))
attempt("parent's entries", lambda: glob.glob(os.path.dirname(SECRET) + "/*.txt"))
attempt("passwd", lambda: read("/etc/passwd"))
attempt("passwd, two slashes", lambda: read("//etc/passwd"))
attempt("passwd by dots", lambda: read("../" * 12 + "etc/passwd"))
attempt("passwd by process root", lambda: read("/proc/self/root/etc/passwd"))
attempt("etc's listing", lambda: os.listdir("/etc"))
attempt("process environment", lambda: read("/proc/self/environ"))
attempt("process maps", lambda: read("/proc/self/maps"))
attempt("process working directory", lambda: os.readlink("/proc/self/cwd"))
attempt("process executable", lambda: os.readlink("/proc/self/exe"))
attempt("process descriptors", lambda: os.listdir("/proc/self/fd"))
attempt("kernel", lambda: read("/proc/version"))
attempt("device", lambda: open("/dev/full", "rb").read(1))
