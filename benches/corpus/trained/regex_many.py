import re

text = "Call 555-1234 or (555) 987-6543; mail a.b@c.org, see http://x.org/path?q=1 on 2024-03-05. " * 80
patterns = {
    "phone": r"\(?\d{3}\)?[- ]\d{3,4}(?:-\d{4})?",
    "mail": r"\b[\w.]+@[\w.]+\.\w{2,}\b",
    "url": r"https?://[^\s,]+",
    "date": r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)",
}
print({name: len(re.findall(pattern, text)) for name, pattern in patterns.items()})
print(len(re.sub(r"\d", "#", text)), len(re.split(r"[;,.]\s*", text)))
swapped = re.sub(patterns["date"], lambda m: f"{m['day']}/{m['month']}/{m['year']}", text)
print(swapped[-12:], len([m.span() for m in re.finditer(r"(?i)\b[a-z]+\b", text)]))
print(len(re.compile(r"(\w)(?=\1)").findall("bookkeeper committee " * 200)))
