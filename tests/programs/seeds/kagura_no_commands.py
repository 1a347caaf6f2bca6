import subprocess

result = subprocess.run(["ls"])

# with policy: strict
# expect error: "SecurityError: Forbidden import: subprocess"
# expect kind: "policy"
