# aim = "secret"
# tries = "Looks for the secret in the memory of the process, by `/proc/self/mem`."
# control = "the control's process gave up its user, which makes its /proc files root's"
for line in open("/proc/self/maps"):
    start, end = (int(x, 16) for x in line.split()[0].split("-"))
    if " rw" in line and end - start < 1 << 26:
        with open("/proc/self/mem", "rb") as memory:
            memory.seek(start)
            data = memory.read(end - start)
        at = data.find(b"hostile-secret-")
        if at >= 0:
            print(data[at : at + 60])
