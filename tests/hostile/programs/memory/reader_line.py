# aim = "memory"
# tries = "Reads a \"line\" from a device that has none."
held = open("/dev/zero", "rb").readline(900 << 20).replace(b"\0", b"x")
