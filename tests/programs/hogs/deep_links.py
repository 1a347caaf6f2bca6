"""Goes deeper by links, by descriptors, and by moving trees to the ends of others."""

import os

DOWN = 50


def tree(top):
    path = "/".join([top] + ["d"] * DOWN)
    os.makedirs(path)
    return path


def by_links():
    base = tree("links")
    for number in range(20):
        os.symlink(base, f"link-{number}")
        base = tree(f"link-{number}/more")


def by_opened_links():
    os.symlink(tree("opened"), "short")
    folder = os.open("short", os.O_RDONLY)
    for _ in range(DOWN):
        os.mkdir("d", dir_fd=folder)
        folder = os.open("d", os.O_RDONLY, dir_fd=folder)


def by_moved_trees():
    tree("moved-0")
    for number in range(1, 20):
        os.symlink(tree(f"moved-{number}"), f"end-{number}")
        os.rename(f"moved-{number - 1}", f"end-{number}/here")


def by_moved_descriptors():
    end = tree("taken")
    os.mkdir("e")
    folder = os.open("e", os.O_RDONLY)
    os.rename("e", end + "/e")
    for _ in range(DOWN):
        os.mkdir("d", dir_fd=folder)
        folder = os.open("d", os.O_RDONLY, dir_fd=folder)


for attempt in (by_links, by_opened_links, by_moved_trees, by_moved_descriptors):
    try:
        attempt()
        print(attempt.__name__, "worked")
    except OSError as error:
        print(attempt.__name__, error.errno)
