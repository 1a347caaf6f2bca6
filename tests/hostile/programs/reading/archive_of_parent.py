# aim = "secret"
# tries = "Packs the file into an archive of its own and unpacks it."
import tarfile

with tarfile.open("stolen.tar", "w") as archive:
    archive.add("../secret.txt", "mine.txt")
with tarfile.open("stolen.tar") as archive:
    print(archive.extractfile("mine.txt").read())
