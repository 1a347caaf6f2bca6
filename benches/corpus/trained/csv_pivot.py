import csv
import io
from collections import OrderedDict, defaultdict

PRODUCTS = ["Apples", "Bananas", 'Cherries, "sweet"', "Dates"]
STORES = ["Berlin", "Lyon", "Porto", "Turin", "Utrecht"]


def generate(rows):
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["date", "store", "product", "units", "price"])
    for i in range(rows):
        day = f"2023-{i % 12 + 1:02d}-{i % 28 + 1:02d}"
        units = "" if i % 97 == 0 else i * 13 % 40
        writer.writerow([day, STORES[i * 3 % 5], PRODUCTS[i * 5 % 4], units, f"{1 + i % 9 * 0.25:.2f}"])
    return buffer.getvalue()


def load(text):
    skipped = 0
    rows = []
    for row in csv.DictReader(io.StringIO(text)):
        try:
            row["units"] = int(row["units"])
            row["price"] = float(row["price"])
        except ValueError:
            skipped += 1
            continue
        row["revenue"] = row["units"] * row["price"]
        rows.append(row)
    return rows, skipped


def pivot(rows, index, columns, value):
    table = defaultdict(lambda: defaultdict(float))
    for row in rows:
        table[row[index]][row[columns]] += row[value]
    names = sorted({name for line in table.values() for name in line})
    return OrderedDict((key, [table[key][name] for name in names]) for key in sorted(table)), names


def write(table, names, label):
    output = io.StringIO()
    writer = csv.writer(output, delimiter=";", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow([label, *names, "total"])
    for key, values in table.items():
        writer.writerow([key, *(round(value, 2) for value in values), round(sum(values), 2)])
    return output.getvalue()


text = generate(15000)
rows, skipped = load(text)
print(f"{len(rows)} rows, {skipped} skipped, {len(text)} characters")
print(write(*pivot(rows, "store", "product", "revenue"), "store"))
monthly = defaultdict(float)
for row in rows:
    monthly[row["date"][:7]] += row["revenue"]
previous = None
for month, revenue in sorted(monthly.items()):
    change = "" if previous is None else f"{revenue / previous - 1:+.1%}"
    print(f"{month}  {revenue:>10.2f}  {change}")
    previous = revenue
