# aim = "outside"
# tries = "Unpacks a link to a directory outside, and then a file through it."
import io
import tarfile

stream = io.BytesIO()
with tarfile.open(fileobj=stream, mode="w") as archive:
    link = tarfile.TarInfo("door")
    link.type, link.linkname = tarfile.SYMTYPE, "../outside"
    archive.addfile(link)
    member = tarfile.TarInfo("door/planted.txt")
    archive.addfile(member, io.BytesIO(b""))
stream.seek(0)
unpacked = tarfile.open(fileobj=stream)
unpacked.extraction_filter = lambda member, path: member
unpacked.extractall()
