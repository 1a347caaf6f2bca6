from datetime import datetime, timedelta


def parse(field, low, high):
    values = set()
    for part in field.split(","):
        body, _, step = part.partition("/")
        if body == "*":
            first, last = low, high
        elif "-" in body:
            first, last = map(int, body.split("-"))
        else:
            first = last = int(body)
        values.update(range(first, last + 1, int(step or 1)))
    return values


minutes, hours, days = parse("*/15", 0, 59), parse("8-18/2,22", 0, 23), parse("1,15", 1, 31)
now, found = datetime(2024, 1, 1), []
while len(found) < 200:
    if now.day in days and now.hour in hours and now.minute in minutes:
        found.append(now)
    now += timedelta(minutes=5)
print(found[0], found[-1], sum((b - a).seconds for a, b in zip(found, found[1:])))
