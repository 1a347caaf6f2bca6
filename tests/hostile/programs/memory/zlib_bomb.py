# aim = "memory"
# tries = "Unpacks a thousandfold, nested."
import zlib

packer = zlib.compressobj(9)
bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(800)) + packer.flush()
data = bytearray(zlib.decompress(bomb))
data[:] = data.replace(b"\0", b"x")
