import re

lines = "\n".join(f"2026-{i % 12 + 1:02}-{i % 28 + 1:02} user{i}@host{i % 50}.org took {i}ms" for i in range(6_000))
found = re.findall(r"(\d{4})-(\d\d)-(\d\d) (\w+)@(\w+)\.org", lines)
words = re.sub(r"\b(\w)(\w*)\b", lambda m: m[2] + m[1], lines[:40_000])
print(len(found), found[-1], hash(words) == 0, len(re.split(r"[\s,.@]+", lines)))
