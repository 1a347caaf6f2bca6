# aim = "outside"
# tries = "Unpacks an archive by the names in it, as programs do that do not use `extract`."
import io
import os
import zipfile

stream = io.BytesIO()
with zipfile.ZipFile(stream, "w") as archive:
    archive.writestr("../outside/planted.txt", "owned")
with zipfile.ZipFile(stream) as archive:
    for name in archive.namelist():
        with open(os.path.join(".", name), "wb") as file:
            file.write(archive.read(name))
