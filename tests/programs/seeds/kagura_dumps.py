import json

result = json.dumps({"key": "value"})

# with policy: strict
# expect result: "{\"key\": \"value\"}"
