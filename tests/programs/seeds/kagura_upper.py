data = {"name": "Alice", "role": "engineer"}
result = {key.upper(): value for key, value in data.items()}

# with policy: strict
# expect result: {"NAME": "Alice", "ROLE": "engineer"}
