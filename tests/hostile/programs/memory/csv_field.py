# aim = "memory"
# tries = "Reads a line of a table that has no end."
import csv

csv.field_size_limit(1 << 30)
print(len(next(csv.reader(iter(["x" * 10_000_000 + '"'] * 1 + ['"' + "y" * 90_000_000] * 9)))))
rows = list(csv.reader(["x," * 10_000_000] * 8))
