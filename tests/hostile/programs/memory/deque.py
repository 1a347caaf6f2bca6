# aim = "memory"
# tries = "Rotates a queue that grows at both ends."
from collections import deque

held = deque()
while True:
    held.extend(range(10_000))
    held.extendleft(range(10_000))
