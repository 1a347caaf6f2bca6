# aim = "alive"
# tries = "Is put on the disk with hundreds of open files, some of them twice or nameless."
# session = true
# suspend = true
# control = "the control writes no session down"
import os

held = []
for i in range(150):
    held.append(open(f"f{i}", "w+"))
    held.append(os.fdopen(os.dup(held[-1].fileno()), "w"))
    if i % 3 == 0:
        os.unlink(f"f{i}")
# --- again
for file in held:
    file.write("x")
print(len(held))
