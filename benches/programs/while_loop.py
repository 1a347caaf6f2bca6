n, steps = 0, 0
while n < 1_000_000:
    n += 3 if n % 2 else 1
    steps += 1
print(steps)
