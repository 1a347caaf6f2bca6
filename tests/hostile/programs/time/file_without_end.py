# aim = "time"
# tries = "Reads a device that has no end."
with open("/dev/zero", "rb") as device:
    while device.read(1 << 20):
        pass
