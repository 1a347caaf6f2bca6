"""Gets outside by links. argv: the absolute path of a secret file."""

import os
import shutil
import sys

from attempts import attempt, read, upwards

SECRET = sys.argv[1]
OUTSIDE = os.path.dirname(SECRET)


def symlink(target, name, then=""):
    def attack():
        os.symlink(target, name)
        return read(name + then)

    return attack


def relative():
    os.symlink(upwards("secret.txt"), "relative")
    return read("relative")


def by_parent():
    os.symlink(os.path.dirname(upwards("secret.txt")), "parent")
    return read("parent/secret.txt")


def chain():
    os.symlink("chain-2", "chain-1")
    os.symlink("chain-3", "chain-2")
    os.symlink(upwards("secret.txt"), "chain-3")
    return read("chain-1")


def swapped():
    """A directory that becomes a link after it was looked at."""
    os.makedirs("swapped")
    with open("swapped/secret.txt", "w") as file:
        file.write("harmless")
    directory = os.open("swapped", os.O_RDONLY)
    os.rename("swapped", "harmless")
    os.symlink(OUTSIDE, "swapped")
    os.close(directory)
    return read("swapped/secret.txt")


def write_through():
    os.symlink(OUTSIDE + "/planted.txt", "writer")
    with open("writer", "w") as file:
        file.write("planted")
    return os.path.exists(OUTSIDE + "/planted.txt")


def hard(source):
    def attack():
        os.link(source(), "hard")
        try:
            return read("hard")
        finally:
            os.unlink("hard")

    return attack


def renamed_in():
    source = upwards("secret.txt")
    os.rename(source, "stolen.txt")
    try:
        return read("stolen.txt")
    finally:
        os.rename("stolen.txt", source)


def renamed_out():
    with open("mine.txt", "w") as file:
        file.write("planted")
    os.rename("mine.txt", OUTSIDE + "/planted.txt")
    return True


def renamed_out_by_dots():
    with open("mine.txt", "w") as file:
        file.write("planted")
    os.replace("mine.txt", os.path.dirname(upwards("secret.txt")) + "/planted.txt")
    return True


def listed_link():
    os.symlink(OUTSIDE, "listing")
    return "secret.txt" in os.listdir("listing")


attempt("absolute link", symlink(SECRET, "absolute"))
attempt("absolute directory link", symlink(OUTSIDE, "directory", "/secret.txt"))
attempt("link to etc", symlink("/etc", "etc", "/passwd"))
attempt("link to the process", symlink("/proc/self", "process", "/environ"))
attempt("relative link", relative)
attempt("link to the parent", by_parent)
attempt("chain of links", chain)
attempt("swapped directory", swapped)
attempt("written link", write_through)
attempt("listed link", listed_link)
attempt("hard link", hard(lambda: SECRET))
attempt("hard link by dots", hard(lambda: upwards("secret.txt")))
attempt("copied", lambda: read(shutil.copy(SECRET, "copy.txt")))
attempt("renamed in", renamed_in)
attempt("renamed out", renamed_out)
attempt("renamed out by dots", renamed_out_by_dots)
