# aim = "memory"
# tries = "Maps memory past the allocator."
import mmap

held = []
while True:
    block = mmap.mmap(-1, 32 << 20)
    block.write(b"x" * (32 << 20))
    held.append(block)
