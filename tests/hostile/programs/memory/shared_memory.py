# aim = "memory"
# tries = "Puts the ballast into memory that belongs to no process."
from multiprocessing import shared_memory

held = []
for _ in range(12):
    block = shared_memory.SharedMemory(create=True, size=64 << 20)
    block.buf[:] = b"x" * (64 << 20)
    held.append(block)
    block.unlink()
