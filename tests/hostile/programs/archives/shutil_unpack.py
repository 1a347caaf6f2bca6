# aim = "outside"
# tries = "Unpacks by `shutil`, into a directory that the archive's own path leads out of."
import io
import shutil
import tarfile

with tarfile.open("a.tar", "w") as archive:
    archive.addfile(tarfile.TarInfo("planted.txt"), io.BytesIO(b""))
shutil.unpack_archive("a.tar", "inner/../../outside")
