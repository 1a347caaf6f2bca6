import json
import re

records = [
    {"id": i, "email": f" User{i}@Example{i % 7}.COM ", "tags": ["a", "b", str(i)], "age": i % 90 or None}
    for i in range(1_500)
]
EMAIL = re.compile(r"^[\w.+-]+@[\w-]+\.[\w.]+$")
cleaned, errors = [], []
for record in records:
    email = record["email"].strip().lower()
    if not EMAIL.match(email) or record["age"] is None:
        errors.append({"id": record["id"], "reason": "age" if EMAIL.match(email) else "email"})
        continue
    cleaned.append({**record, "email": email, "tags": sorted(set(record["tags"]))})
text = json.dumps(cleaned, indent=2, sort_keys=True)
back = json.loads(text)
print(len(cleaned), len(errors), len(text), back[10]["email"], sum(r["age"] for r in back))
