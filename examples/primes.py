"""The primes below a limit, by the sieve of Eratosthenes. The limit is the first argument.

belljar run examples/primes.py -- 1000
"""

import sys

limit = int(sys.argv[1]) if len(sys.argv) > 1 else 50

sieve = bytearray([1]) * limit
sieve[:2] = bytes(min(2, limit))
for n in range(2, int(limit**0.5) + 1):
    if sieve[n]:
        sieve[n * n :: n] = bytes(len(range(n * n, limit, n)))
primes = [n for n in range(limit) if sieve[n]]

print(f"{len(primes)} primes below {limit}, the largest is {primes[-1] if primes else None}")
print(f"the sum of their squares is {sum(p * p for p in primes)}")
result = primes[-10:]
