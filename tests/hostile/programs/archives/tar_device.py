# aim = "alive"
# tries = "Unpacks devices and pipes, and reads them."
# control = "only the superuser makes devices"
import io
import tarfile

stream = io.BytesIO()
with tarfile.open(fileobj=stream, mode="w") as archive:
    for name, kind in (("memory", tarfile.CHRTYPE), ("disk", tarfile.BLKTYPE)):
        member = tarfile.TarInfo(name)
        member.type, member.devmajor, member.devminor = kind, 1, 1
        archive.addfile(member)
stream.seek(0)
unpacked = tarfile.open(fileobj=stream)
unpacked.extraction_filter = lambda member, path: member
unpacked.extractall()
print(open("memory", "rb").read(100))
