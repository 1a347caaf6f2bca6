import json

rows = [{"id": i, "name": f"row {i}", "tags": ["a", "b", str(i)], "x": i / 7} for i in range(8_000)]
text = json.dumps(rows)
back = json.loads(text)
print(len(text), sum(row["id"] for row in back), json.loads(json.dumps(back, indent=1)) == rows)
