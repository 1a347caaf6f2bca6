"""Every opcode, with everything that is not a frame."""

import _host

payloads = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'"' + b"x" * 1_000_000 + b'"',
    b'{"status": "ok", "exit_code": 99999999999999999999999}',
    b'{"path": 5}',
    b'{"name": null, "repr": []}',
    b'{"value": 1e999}',
    b'{"value": NaN}',
    b'{"message": "' + b"m" * 100_000 + b'"}',
]
print("before")
for opcode in range(256):
    if opcode == ord("e"):
        continue
    for payload in payloads:
        try:
            _host.call(bytes([opcode]) + payload)
        except Exception:
            continue
try:
    _host.call(b"")
except Exception:
    pass
for wrong in (None, 1, "text", [1]):
    try:
        _host.call(wrong)
    except Exception:
        continue

# expect kind: "crash"
# expect error has: ["ForgedReply"]
# expect stdout: "before\n"
