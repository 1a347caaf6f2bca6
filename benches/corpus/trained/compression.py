import hashlib
import io
import struct
import zlib
from itertools import groupby


def run_length(data):
    return b"".join(struct.pack("BB", len(chunk), chunk[0]) for chunk in runs(data))


def runs(data):
    for _, group in groupby(data):
        chunk = bytes(group)
        for start in range(0, len(chunk), 255):
            yield chunk[start : start + 255]


def expand(data):
    return b"".join(bytes([value]) * count for count, value in struct.iter_unpack("BB", data))


def lz_compress(data, window=512):
    out, position = bytearray(), 0
    while position < len(data):
        length, offset = 0, 0
        begin = max(0, position - window)
        for size in range(3, min(34, len(data) - position)):
            found = data.rfind(data[position : position + size], begin, position + size - 1)
            if found < 0:
                break
            length, offset = size, position - found
        if length:
            out += struct.pack(">BHB", 1, offset, length)
            position += length
        else:
            out += bytes((0, data[position]))
            position += 1
    return bytes(out)


def lz_expand(data):
    out, stream = bytearray(), io.BytesIO(data)
    while kind := stream.read(1):
        if kind == b"\1":
            offset, length = struct.unpack(">HB", stream.read(3))
            for _ in range(length):
                out.append(out[-offset])
        else:
            out += stream.read(1)
    return bytes(out)


samples = {
    "text": b"It was the best of times, it was the worst of times, it was the age of wisdom. " * 100,
    "zeros": bytes(3000) + b"\x01\x02" * 50 + bytes(3000),
    "numbers": b",".join(str(i * i % 97).encode() for i in range(3600)),
    "noise": hashlib.shake_256(b"seed").digest(3600),
}
for name, data in samples.items():
    packed, short = lz_compress(data), run_length(data)
    assert lz_expand(packed) == data
    assert expand(short) == data
    deflated = len(zlib.compress(data, 9))
    digest = hashlib.sha256(packed).hexdigest()[:12]
    print(f"{name:<8} {len(data):>6} lz {len(packed):>6} rle {len(short):>6} zlib {deflated:>5} crc {zlib.crc32(data):08x} {digest}")
