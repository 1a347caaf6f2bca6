# aim = "disk"
# tries = "Unpacks an archive that is a thousand times as large as it was."
import io
import zipfile

stream = io.BytesIO()
with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("big", bytes(200 << 20))
zipfile.ZipFile(stream).extractall()
import time

time.sleep(0.5)
