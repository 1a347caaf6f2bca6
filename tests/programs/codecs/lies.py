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

# Encoded values that lie about their number.
run, texts = b"\1\xfe\xff\xff\xff\x0f\1", b"\1\0\0\0a" * 1000
assert ask(b"vh", 1 << 20, run) == b"\1\0\0\0" * (1 << 20)
assert ask(b"vb", 1000, texts) == b"(" + b"B\1\0\0\0a" * 1000 + b"l."
for how, count, data in (
    (b"vh", 9, b"\1\3"), (b"vh", 9, b"\x21\2\0"), (b"vi", 9, run), (b"vt", 1001, texts),
    (b"vt", 1000, texts[:-1]), (b"vb", 1, b"\xff" * 9), (b"vt", 1, b"\1\0\0\0\xff"),
    (b"vT", 1, b"\xff" * 4), (b"vB", 2, b"\1\0\0\0" * 2 + b"a"),
):  # fmt: skip
    assert ask(how, count, data) == b"", (how, count, data)
for how, count in ((b"vh", 0), (b"vh", (1 << 32) - 1), (b"vi", 1 << 31), (b"vh", 1 << 29), (b"vi", 1 << 28), (b"vt", 9), (b"vx", 1)):
    assert ask(how, count, b"x" * 9) is None, (how, count)
for form in (b"h", b"i", b"t", b"b", b"T", b"B"):
    for count in (1, 2, 1000):
        for _ in range(200):
            state = zlib.crc32(state.to_bytes(4, "little"))
            noise = b"".join(bytes((zlib.crc32(bytes((n,)), state) % 9,)) for n in range(40))
            assert len(ask(b"v" + form, count, noise) or b"") <= 8 * count + 100
print("refused")
