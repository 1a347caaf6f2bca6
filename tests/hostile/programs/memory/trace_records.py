# aim = "memory"
# tries = "Has the allocator's own tracer record every allocation with its stack."
import tracemalloc

tracemalloc.start(200)


def deep(n):
    return [object() for _ in range(1000)] if n == 0 else deep(n - 1)


held = []
while True:
    held.append((deep(len(held) % 150), bytearray(b"x" * 10_000)))
