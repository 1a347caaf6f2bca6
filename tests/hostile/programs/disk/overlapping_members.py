# aim = "disk"
# tries = "Unpacks an archive whose entries all name the same data."
import io
import struct
import zipfile

stream = io.BytesIO()
with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("a" * 8, bytes(4 << 20))
raw = stream.getvalue()
at = raw.index(b"PK\1\2")
for i in range(60):
    single = raw.replace(b"a" * 8, f"{i:08d}".encode())
    zipfile.ZipFile(io.BytesIO(single)).extractall()
