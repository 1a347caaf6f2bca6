import json
import re


def convert(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if re.fullmatch(r"\[.*\]", text):
        return [convert(part.strip()) for part in text[1:-1].split(",")]
    return text.strip("'\"")


text = "\n".join(
    f"[s{i}]\na = {i}\nb = {i / 3:.4f}\nc = true\nd = [1, 2.5, x{i}]\ne = 'text {i}'\n# note" for i in range(300)
)
data, current = {}, None
for line in text.splitlines():
    if not line or line.startswith("#"):
        continue
    if match := re.match(r"\[(\w+)\]", line):
        current = data.setdefault(match[1], {})
    else:
        key, _, value = line.partition(" = ")
        current[key] = convert(value)
print(len(data), data["s7"], len(json.dumps(data)))
