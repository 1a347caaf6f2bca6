# aim = "memory"
# tries = "Unpacks an archive in an archive, to a depth of nine."
import gzip

bomb = bytes(100 << 20)
held = []
for _ in range(9):
    packed = gzip.compress(bomb, 1)
    held.append(bytearray(gzip.decompress(packed).replace(b"\0", b"x")))
