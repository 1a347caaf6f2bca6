import json

document = {
    "users": [
        {
            "id": i,
            "name": f"User {i}",
            "scores": [i % 7, i % 11 / 3, None, True],
            "address": {"city": "Zürich" if i % 2 else "Paris", "zip": f"{i:05}"},
        }
        for i in range(500)
    ]
}


def flatten(value, prefix=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flatten(inner, f"{prefix}.{key}" if prefix else key)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from flatten(inner, f"{prefix}[{i}]")
    else:
        yield prefix, value


text = json.dumps(document)
flat = dict(flatten(json.loads(text)))
print(len(text), len(flat), flat["users[3].address.city"], len(json.dumps(document, ensure_ascii=False)))
