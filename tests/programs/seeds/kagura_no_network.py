import requests

result = requests.get("https://api.example.com").json()

# with policy: strict
# expect error: "SecurityError: Forbidden import: requests"
# expect kind: "policy"
