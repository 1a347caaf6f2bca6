# aim = "outside"
# tries = "Unpacks a directory in place of one outside, and so changes its mode."
# control = "the control may not change the mode of others' directories; its times of files are its own"
import io
import tarfile

stream = io.BytesIO()
with tarfile.open(fileobj=stream, mode="w") as archive:
    member = tarfile.TarInfo("../outside")
    member.type, member.mode = tarfile.DIRTYPE, 0o000
    archive.addfile(member)
stream.seek(0)
unpacked = tarfile.open(fileobj=stream)
unpacked.extraction_filter = lambda member, path: member
unpacked.extractall()
