data = {"name": "Alice", "age": 25, "city": "NYC"}
result = data["age"]

# with policy: strict
# expect result: 25
