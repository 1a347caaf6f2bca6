"""Sends very many, and very large, messages to the host."""

import _host

refused = 0
for payload in (b"x" * (64 << 20), b"p" * (64 << 20), b"d" + b"[" * (16 << 20), b"\xff" * 1024):
    try:
        _host.call(payload)
    except Exception:
        refused += 1
for _ in range(100_000):
    try:
        _host.call(b"w" + b'{"message": "' + b"m" * 1000 + b'"}')
    except Exception:
        refused += 1
print("refused" if refused else "accepted")
