import csv
import io

rows = [[i, f"name {i % 50}", f"{i * 1.5:.2f}", "yes" if i % 3 else "no"] for i in range(3_000)]
out = io.StringIO()
writer = csv.writer(out)
writer.writerow(["id", "name", "price", "active"])
writer.writerows(rows)
with open("data.csv", "w", newline="") as file:
    file.write(out.getvalue())
totals = {}
with open("data.csv", newline="") as file:
    for row in csv.DictReader(file):
        if row["active"] == "yes":
            totals[row["name"]] = totals.get(row["name"], 0) + float(row["price"])
top = sorted(totals.items(), key=lambda item: -item[1])[:3]
print(len(totals), [(name, round(total, 2)) for name, total in top])
