def rule(number):
    return {f"{i:03b}": str(number >> i & 1) for i in range(8)}


def run(number, width, steps):
    table, row = rule(number), "0" * (width // 2) + "1" + "0" * (width // 2)
    for _ in range(steps):
        yield row
        padded = "0" + row + "0"
        row = "".join(table[padded[i : i + 3]] for i in range(width))


rows = list(run(110, 121, 200))
print(sum(row.count("1") for row in rows), rows[20][40:81].replace("0", " ").replace("1", "#"))
