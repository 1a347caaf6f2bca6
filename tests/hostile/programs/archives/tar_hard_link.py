# aim = "secret"
# tries = "Unpacks a hard link to a file outside, and reads it."
# control = "the kernel refuses links to other users' files (protected_hardlinks)"
import io
import tarfile

stream = io.BytesIO()
with tarfile.open(fileobj=stream, mode="w") as archive:
    link = tarfile.TarInfo("mine.txt")
    link.type, link.linkname = tarfile.LNKTYPE, "../secret.txt"
    archive.addfile(link)
stream.seek(0)
unpacked = tarfile.open(fileobj=stream)
unpacked.extraction_filter = lambda member, path: member
unpacked.extractall()
print(open("mine.txt").read())
