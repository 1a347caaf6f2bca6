# aim = "secret"
# tries = "Maps the file into memory instead of reading it."
import mmap

with open("@SECRET_FILE@", "rb") as file:
    print(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)[:])
