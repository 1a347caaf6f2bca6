def fizz(n):
    return "Fizz" * (n % 3 == 0) + "Buzz" * (n % 5 == 0) or str(n)


lines = [fizz(n) for n in range(1, 15_001)]
report = [f"{n:>6}|{line:<9}|{n / 7:8.3f}|{n:#x}" for n, line in enumerate(lines[:4_000], 1)]
text = "\n".join(report)
print(len(text), lines.count("FizzBuzz"), text.count("Fizz"), report[-1])
print("%s has %d items costing %.2f" % ("cart", 3, 9.5), "{:,}".format(1234567), "{0!r:>8}".format("x"))
