"""What is the sum of squares of all prime numbers below 50?"""


def is_prime(n):
    if n < 2:
        return False
    return all(n % d for d in range(2, int(n**0.5) + 1))


print(sum(n * n for n in range(50) if is_prime(n)))

# expect stdout: "10466\n"
