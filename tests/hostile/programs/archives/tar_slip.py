# aim = "outside"
# tries = "Unpacks an archive with a member whose name climbs."
import io
import tarfile

stream = io.BytesIO()
with tarfile.open(fileobj=stream, mode="w") as archive:
    member = tarfile.TarInfo("../outside/planted.txt")
    member.size = 5
    archive.addfile(member, io.BytesIO(b"owned"))
stream.seek(0)
unpacked = tarfile.open(fileobj=stream)
unpacked.extraction_filter = lambda member, path: member
unpacked.extractall()
