import os

print("before")
for descriptor in (0, 1, 2):
    os.close(descriptor)
result = "still here"

# expect success: true
# expect result: "still here"
# expect stdout: "before\n"
