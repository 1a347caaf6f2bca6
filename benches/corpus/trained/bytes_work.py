import struct
import zlib

records = [struct.pack("<IHd8s", i, i % 1000, i * 0.5, b"name%04d" % (i % 10_000)) for i in range(8_000)]
blob = b"".join(records)
size = struct.calcsize("<IHd8s")
total = 0.0
for at in range(0, len(blob), size):
    number, small, value, name = struct.unpack_from("<IHd8s", blob, at)
    total += value + small + number % 3 + len(name.rstrip(b"\0"))
packed = zlib.compress(blob)
view = memoryview(blob)
print(total, len(packed), zlib.crc32(blob), bytes(view[10:20]), blob.count(b"name"), blob.find(b"7777"))
