# aim = "time"
# tries = "Reads members of an archive that overlaps itself again and again."
import io
import zipfile

stream = io.BytesIO()
with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("a", bytes(100 << 20))
while True:
    with zipfile.ZipFile(stream) as archive, archive.open("a") as member:
        while member.read(1 << 20):
            pass
