import re

print("started")
re.match(r"(a+)+$", "a" * 64 + "b")
