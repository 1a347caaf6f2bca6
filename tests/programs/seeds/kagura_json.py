import json

text = """{"users": [{"name": "Alice", "score": 95}, {"name": "Bob", "score": 87},
           {"name": "Charlie", "score": 92}]}"""
scores = [user["score"] for user in json.loads(text)["users"]]
result = sum(scores) / len(scores)

# with policy: strict
# expect result: 91.33333333333333
