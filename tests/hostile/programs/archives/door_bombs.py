# aim = "memory"
# tries = "Has the host decompress bombs and frames with the largest windows, by belljar's own frames."
# control = "the module is belljar's own; on others the import fails"
import itertools

import _host


def ask(how, size, data):
    try:
        return _host.call(b"z" + how + size.to_bytes(4, "little") + data)
    except (OSError, MemoryError):
        return b""


zeros = bytes(16 << 20)
packed = {codec: ask(b"c" + codec, len(zeros), zeros) for codec in (b"s", b"r", b"f", b"z")}
# Zstandard with a window of 8 MiB, and of 2 GiB.
heads = [b"\x28\xb5\x2f\xfd\x00" + window for window in (b"\x68", b"\xa8")]
for turn in itertools.count():
    for codec, data in packed.items():
        for size in (1, len(zeros), 64 << 20):
            ask(b"d" + codec, size, data)
    for head in heads:
        # Blocks of one byte repeated 128 Ki times.
        ask(b"dz", 64 << 20, head + b"\x02\x00\x10x" * 1000)
