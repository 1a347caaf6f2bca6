import sys
from functools import cache


@cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def fast(n):
    if n == 0:
        return 0, 1
    a, b = fast(n >> 1)
    c, d = a * (2 * b - a), a * a + b * b
    return (d, c + d) if n & 1 else (c, d)


sys.set_int_max_str_digits(0)
print(fib(300), sum(fast(i)[0] % 1_000_007 for i in range(1_500)), len(str(fast(20_000)[0])))
