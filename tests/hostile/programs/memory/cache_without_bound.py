# aim = "memory"
# tries = "Fills a cache that never forgets."
import functools


@functools.cache
def kept(number):
    return bytes(2000) + bytes([number % 256])


number = 0
while True:
    kept(number)
    number += 1
