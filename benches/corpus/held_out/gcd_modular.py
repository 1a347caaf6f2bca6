import math


def extended(a, b):
    if b == 0:
        return a, 1, 0
    g, x, y = extended(b, a % b)
    return g, y, x - a // b * y


def is_prime(n):
    if n < 2 or any(n % p == 0 for p in (2, 3, 5, 7, 11, 13) if n != p):
        return n in (2, 3, 5, 7, 11, 13)
    d, s = n - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for a in (2, 3, 5, 7, 11, 13):
        x = pow(a, d, n)
        if x in (1, n - 1) or a % n == 0:
            continue
        for _ in range(s - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


primes = [n for n in range(1, 12_000) if is_prime(n)]
inverses = sum(extended(a, 10_007)[1] % 10_007 for a in range(1, 3_000))
print(len(primes), inverses, math.gcd(*primes[:2]), math.lcm(*range(1, 20)), is_prime((1 << 61) - 1))
