"""Paths without `os.path`, whose functions the code may have patched."""

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
    """The part after the last dot of the name, or ""; names may begin with dots."""
    return path.rpartition("/")[2].lstrip(".").partition(".")[2].rpartition(".")[2]


def is_taken(path):
    """Whether the path exists, even as a dangling link."""
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
    """Create the directory, unless it exists."""
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
