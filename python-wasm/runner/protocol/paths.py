"""Paths, without `os.path`: code that has patched a function of it would see our calls."""

import posix
import stat

_cwd = posix.getcwd
_is_directory_mode = stat.S_ISDIR
_link_status = posix.lstat
_make = posix.mkdir
_remove = posix.unlink
_status = posix.stat


def absolute(path):
    """The absolute path, without `.`, `..` and doubled slashes."""
    parts = []
    for part in (path if path.startswith("/") else f"{_cwd()}/{path}").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def extension(path):
    """What follows the last dot of the name, or ""; a name may begin with dots."""
    return path.rpartition("/")[2].lstrip(".").partition(".")[2].rpartition(".")[2]


def is_taken(path):
    """Whether there is anything under that name, a link that leads nowhere included."""
    try:
        _link_status(path)
    except OSError:
        return False
    return True


def is_directory(path):
    try:
        return _is_directory_mode(_status(path).st_mode)
    except (OSError, ValueError):
        return False


def make_directory(path):
    """Make it, unless it is there."""
    try:
        _make(path)
    except FileExistsError:
        if not is_directory(path):
            raise


def remove(path):
    try:
        _remove(path)
    except OSError:
        return
