import math


def engineering(x):
    if x == 0:
        return "0"
    power = math.floor(math.log10(abs(x)) / 3) * 3
    return f"{x / 10**power:.3g}e{power}"


def human(size):
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1024:
            return f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"


def to_base(n, base):
    digits = ""
    while n:
        n, rest = divmod(n, base)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits or "0"


values = [1.7**i for i in range(-60, 60)] * 25
text = "".join(map(engineering, values)) + "".join(human(int(v) + 1) for v in values)
assert all(int(to_base(n, b), b) == n for n in range(0, 3_000, 7) for b in (2, 7, 16, 36))
print(len(text), round(1e-7, 3), f"{math.pi:.10f}", float("1e309"), 0.1 + 0.2, divmod(-7, 2), round(2.5))
