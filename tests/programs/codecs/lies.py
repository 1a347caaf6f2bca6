"""Frames about compressed data that lie about it, sent as the runner sends them."""

import zlib

from _host import call


def ask(how, size, data):
    try:
        return call(b"z" + how + size.to_bytes(4, "little") + data)
    except OSError:
        return None


zeros = bytes(1 << 20)
packed = {codec: ask(b"c" + codec, len(zeros), zeros) for codec in (b"s", b"r", b"f", b"z")}
for codec, data in packed.items():
    assert ask(b"d" + codec, len(zeros), data) == zeros
    assert len(data) < len(zeros) / 20, len(data)
    # Bombs end at the size that the frame states.
    for size in (1, 1000, len(zeros) - 1, len(zeros) + 1, 64 << 20):
        assert ask(b"d" + codec, size, data) == b"", (codec, size)
    for end in range(0, len(data), 1 + len(data) // 50):
        assert ask(b"d" + codec, len(zeros), data[:end]) == b"", (codec, end)
    # Sizes that no frame may have.
    for size in (0, (64 << 20) + 1, 1 << 31, (1 << 32) - 1):
        assert ask(b"d" + codec, size, data) is None, (codec, size)
        assert ask(b"c" + codec, size, data) is None, (codec, size)
for how in (b"dx", b"xz", b"cb", b"d", b""):
    assert ask(how, 9, b"x" * 9) is None, how
for short in (b"z", b"zd", b"zdz\1\0\0"):
    try:
        call(short)
    except OSError:
        continue
    raise AssertionError(short)

state = 1
for codec in b"srfzb":
    for size in (1, 100, 5000):
        for _ in range(100):
            state = zlib.crc32(state.to_bytes(4, "little"))
            noise = b"".join(zlib.crc32(bytes((n,)), state).to_bytes(4, "big") for n in range(9))
            start = packed.get(bytes((codec,)), b"")[: state % 20]
            assert len(ask(b"d" + bytes((codec,)), size, start + noise) or b"") in (0, size)
print("refused")
