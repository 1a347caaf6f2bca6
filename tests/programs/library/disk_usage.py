"""The room that the run has for its files, not the host's."""

import shutil

before = shutil.disk_usage(".")
with open("file", "wb") as file:
    file.write(bytes(1000))
after = shutil.disk_usage("/tmp")
print(after.used - before.used, after.total == before.total, before.free - after.free)
print(before.total == before.used + before.free, before.total < 1 << 40)

# expect stdout: "1000 True 1000\nTrue True\n"
