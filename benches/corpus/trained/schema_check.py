import json
import re


class ValidationError(Exception):
    def __init__(self, path, message):
        super().__init__(f"{'/'.join(map(str, path)) or '<root>'}: {message}")
        self.path = path


TYPES = {"string": str, "integer": int, "number": (int, float), "object": dict, "array": list, "boolean": bool}


def check(value, schema, path=()):
    expected = schema.get("type")
    if expected and not isinstance(value, TYPES[expected]):
        yield ValidationError(path, f"expected {expected}, got {type(value).__name__}")
        return
    if "enum" in schema and value not in schema["enum"]:
        yield ValidationError(path, f"{value!r} is not one of {schema['enum']}")
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            yield ValidationError(path, "too short")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield ValidationError(path, f"{value!r} does not match {schema['pattern']}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield ValidationError(path, f"{value} is less than {schema['minimum']}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from check(item, schema.get("items", {}), (*path, index))
    elif isinstance(value, dict):
        for key in schema.get("required", ()):
            if key not in value:
                yield ValidationError(path, f"missing {key!r}")
        for key, item in value.items():
            yield from check(item, schema.get("properties", {}).get(key, {}), (*path, key))


SCHEMA = json.loads("""{"type": "object", "required": ["id", "name", "tags"], "properties": {
    "id": {"type": "integer", "minimum": 1},
    "name": {"type": "string", "minLength": 3, "pattern": "^[A-Z]"},
    "status": {"enum": ["active", "archived"]},
    "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z-]+$"}},
    "price": {"type": "number", "minimum": 0}}}""")

documents = []
for i in range(3500):
    document = {"id": i, "name": f"Item {i}" if i % 7 else "it", "tags": ["new", "on-sale", f"x{i % 3}"[: 1 + i % 2]]}
    if i % 4:
        document["status"] = "active" if i % 5 else "lost"
    if i % 3 == 0:
        document["price"] = str(i) if i % 9 == 0 else i / 4 - 10
    if i % 50 == 0:
        del document["tags"]
    documents.append(document)

errors = [error for text in map(json.dumps, documents) for error in check(json.loads(text), SCHEMA)]
summary = {}
for error in errors:
    summary.setdefault(error.path[0] if error.path else "<root>", []).append(str(error))
for key, messages in sorted(summary.items()):
    print(f"{key:<8} {len(messages):>4}  e.g. {messages[0]}")
