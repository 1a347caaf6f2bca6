# aim = "outside"
# tries = "Runs code from an archive that it puts into the path."
import sys
import zipfile

with zipfile.ZipFile("code.zip", "w") as archive:
    archive.writestr("zipped.py", "open('@OUTSIDE@/planted.txt', 'w')")
sys.path.insert(0, "code.zip")
import zipped
