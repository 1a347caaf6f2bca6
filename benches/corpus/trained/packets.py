import base64
import binascii
import hmac
import struct
from collections import namedtuple
from enum import IntEnum

HEADER = struct.Struct(">2sBBHI")
Packet = namedtuple("Packet", "kind sequence payload")
KEY = b"not a secret"


class Kind(IntEnum):
    PING = 1
    DATA = 2
    ACK = 3


class BadPacket(Exception):
    pass


def checksum(data):
    total = 0
    for byte in memoryview(data):
        total = ((total << 1 | total >> 15) & 0xFFFF) ^ byte
    return total


def encode(packet):
    body = packet.payload.encode("utf-8")
    header = HEADER.pack(b"PK", 1, packet.kind, len(body), packet.sequence)
    return header + body + struct.pack(">H", checksum(header + body))


def decode(buffer):
    position, view = 0, memoryview(buffer)
    while position < len(view):
        magic, version, kind, length, sequence = HEADER.unpack_from(view, position)
        if magic != b"PK" or version != 1:
            raise BadPacket(f"at {position}: {magic!r} version {version}")
        end = position + HEADER.size + length
        (expected,) = struct.unpack_from(">H", view, end)
        if checksum(view[position:end]) != expected:
            raise BadPacket(f"checksum of packet {sequence}")
        yield Packet(Kind(kind), sequence, str(view[position + HEADER.size : end], "utf-8"))
        position = end + 2


packets = [Packet(Kind(i % 3 + 1), i, f"Größe {i} → {'é' * (i % 9)}") for i in range(800)]
stream = bytearray().join(encode(packet) for packet in packets)
decoded = list(decode(stream))
print(decoded == packets, len(stream), decoded[-1])

by_kind = {}
for packet in decoded:
    by_kind.setdefault(packet.kind, []).append(len(packet.payload))
print({kind.name: sum(sizes) for kind, sizes in by_kind.items()})

found = 0
for position in range(0, len(stream), 500):
    damaged = bytearray(stream[: position + 600])
    damaged[position] ^= 0x40
    try:
        list(decode(damaged))
    except (BadPacket, struct.error, UnicodeDecodeError) as error:
        found += 1
        last = f"{type(error).__name__}: {error}"
print(found, "damaged streams found, last:", last)
token = hmac.new(KEY, stream, "sha256").digest()
print(base64.urlsafe_b64encode(token).decode().rstrip("="), binascii.hexlify(stream[:12], " ").decode())
