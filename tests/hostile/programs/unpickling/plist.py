# aim = "time"
# tries = "Parses a binary list of properties that refers to itself."
# control = "plistlib keeps count of what it has read"
import plistlib

plistlib.loads(b"bplist00\xa1\x00\x08" + b"\0" * 6 + b"\1\1" + b"\0" * 7 + b"\1" + b"\0" * 15 + b"\x0a")
while False:
    pass
