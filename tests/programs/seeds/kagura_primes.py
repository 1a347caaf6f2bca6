"""The steps of the tutorial: numbers from 1 to 20, the primes among them, their sum."""

numbers = list(range(1, 21))
primes = [n for n in numbers if n > 1 and all(n % d for d in range(2, n))]
result = sum(primes)

# with policy: strict
# expect result: 77
