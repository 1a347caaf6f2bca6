"""Archives with the same bytes for the same content: sorted, with one date and no owner.

python archives.py OUTPUT.tar.gz NAME=PATH ...     # also .zip; a PATH may be a directory
"""

import gzip
import io
import os
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

# Seconds since 1970, of every file in every archive.
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))


def entries(named: Iterable[tuple[str, Path]]) -> list[tuple[str, Path]]:
    """Files and directories by their names in the archive, sorted; directories are walked."""
    found = {}
    for name, path in named:
        found[name] = path
        if path.is_dir():
            for inner in path.rglob("*"):
                found[f"{name}/{inner.relative_to(path).as_posix()}"] = inner
    return sorted(found.items())


def is_program(path: Path) -> bool:
    return path.is_file() and bool(path.stat().st_mode & 0o100)


def tar_bytes(named: Iterable[tuple[str, Path]], modes: dict[str, int] | None = None) -> bytes:
    """A tar archive. `modes` overrides the mode of some names."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, path in entries(named):
            entry = tarfile.TarInfo(name)
            entry.mtime = EPOCH
            entry.mode = 0o755 if path.is_dir() or is_program(path) else 0o644
            entry.mode = (modes or {}).get(name, entry.mode)
            if path.is_dir():
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            else:
                entry.size = path.stat().st_size
                with path.open("rb") as file:
                    archive.addfile(entry, file)
    return buffer.getvalue()


def compressed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def write_zip(output: Path, named: Iterable[tuple[str, Path]]) -> None:
    date = time.gmtime(EPOCH)[:6]
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in entries(named):
            if path.is_dir():
                continue
            entry = zipfile.ZipInfo(name, date)
            # The host system of the archive, which else depends on this machine.
            entry.create_system = 3
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if is_program(path) else 0o644) << 16
            archive.writestr(entry, path.read_bytes())


def main(output: str, *named: str) -> None:
    pairs = [(name, Path(path)) for name, _, path in (word.partition("=") for word in named)]
    if output.endswith(".zip"):
        write_zip(Path(output), pairs)
    else:
        Path(output).write_bytes(compressed(tar_bytes(pairs)))


if __name__ == "__main__":
    main(*sys.argv[1:])
