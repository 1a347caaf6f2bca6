"""Much that was packed into little."""

import zlib

packer = zlib.compressobj(1)
packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(200)) + packer.flush()
print(len(packed))
print(len(zlib.decompress(packed)))
