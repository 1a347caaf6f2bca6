import os

print("before")
os.abort()

# expect kind: "crash"
# expect stdout: "before\n"
