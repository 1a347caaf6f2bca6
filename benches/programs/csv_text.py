import csv
import io

out = io.StringIO()
writer = csv.writer(out)
for i in range(40_000):
    writer.writerow([i, f"name {i}", i * 0.5, "a,b" if i % 3 else 'say "so"'])
rows = list(csv.DictReader(io.StringIO(out.getvalue()), ["id", "name", "half", "note"]))
print(len(rows), sum(float(row["half"]) for row in rows), rows[3]["note"])
