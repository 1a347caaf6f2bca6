# aim = "memory"
# tries = "Asks the decoder for a dictionary as large as the memory."
import lzma

filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 27, "preset": 9}]
held = []
for _ in range(12):
    packer = lzma.LZMACompressor(lzma.FORMAT_RAW, filters=filters)
    packer.compress(b"x" * (1 << 20))
    held.append(packer)
