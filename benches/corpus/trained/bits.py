def popcount(n):
    count = 0
    while n:
        n &= n - 1
        count += 1
    return count


def gray(n):
    return n ^ (n >> 1)


total = sum(popcount(gray(i)) for i in range(30_000))
table = [i.bit_count() for i in range(256)]
fast = sum(table[i & 255] + table[i >> 8] for i in range(30_000))
packed = 0
for i in range(2_000):
    packed = (packed << 1 | i & 1) & 0xFFFF_FFFF_FFFF
print(total, fast, hex(packed), f"{1234:016b}", int("ff" * 20, 16).bit_length())
