# aim = "alive"
# tries = "Loads data that refers to an object before it is finished."
import marshal

for data in (b"\xdb\x02\x00\x00\x00r\x00\x00\x00\x00N", b"(\x01\x00\x00\x00" * 100_000 + b"N", b"\xe3" + b"\x01" * 60):
    try:
        hash(marshal.loads(data))
    except (ValueError, EOFError, TypeError):
        pass
exec(type((lambda: 0).__code__)(0, 0, 0, 0, 0, 0, b"\x01\x00" * 99 + b"\x53\x00", (), (), (), "", "", "", 1, b"", b""))
