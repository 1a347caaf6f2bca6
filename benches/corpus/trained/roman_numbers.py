VALUES = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC")]
VALUES += [(50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen".split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


def roman(n):
    result = ""
    for value, digit in VALUES:
        while n >= value:
            result += digit
            n -= value
    return result


def number(text):
    values = dict((d, v) for v, d in VALUES if len(d) == 1)
    total = 0
    for a, b in zip(text, text[1:] + " "):
        total += -values[a] if values[a] < values.get(b, 0) else values[a]
    return total


def words(n):
    if n < 15:
        return SMALL[n]
    if n < 20:
        return SMALL[n - 10].rstrip("t") + "teen"
    if n < 100:
        return TENS[n // 10] + ("-" + SMALL[n % 10] if n % 10 else "")
    rest = f" and {words(n % 100)}" if n % 100 else ""
    return f"{SMALL[n // 100]} hundred{rest}"


assert all(number(roman(n)) == n for n in range(1, 3_000))
print(roman(1994), words(342), sum(len(words(n)) for n in range(1, 1_000)))
