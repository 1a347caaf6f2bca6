# aim = "secret"
# tries = "Opens `/dev/fd` of a descriptor that a directory was opened with."
import os

handle = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
print(open(f"/dev/fd/{handle}@SECRET_FILE@").read())
