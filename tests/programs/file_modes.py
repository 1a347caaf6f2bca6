"""Modes of files, in what tells them and in archives."""

import io
import os
import shutil
import stat
import tarfile
import zipfile

if hasattr(os, "umask"):
    os.umask(0o022)
with open("f", "w") as file:
    file.write("x")
    print(oct(os.fstat(file.fileno()).st_mode))
os.mkdir("d")
os.symlink("f", "l")
shutil.copy("f", "g")
shutil.copy2("f", "h")
for name in ("f", "d", "l", "g", "h", "/dev/null"):
    print(name, stat.filemode(os.lstat(name).st_mode), oct(os.stat(name).st_mode))
for entry in sorted(os.scandir("."), key=lambda entry: entry.name):
    print(entry.name, oct(entry.stat(follow_symlinks=False).st_mode))
print(*(os.access(name, how) for name in "fd" for how in (os.F_OK, os.R_OK, os.W_OK)))
with zipfile.ZipFile(io.BytesIO(), "w") as archive:
    archive.write("f")
    archive.write("d")
    print([(member.filename, oct(member.external_attr)) for member in archive.infolist()])
with tarfile.open(fileobj=io.BytesIO(), mode="w") as archive:
    for name in "fdl":
        archive.add(name)
    print([(member.name, oct(member.mode), member.type) for member in archive.getmembers()])
