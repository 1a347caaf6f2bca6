import re
from collections import Counter, defaultdict
from datetime import datetime, timedelta

LINE = re.compile(
    r'(?P<ip>\d{1,3}(?:\.\d{1,3}){3}) - (?P<user>\S+) \[(?P<when>[^\]]+)\] '
    r'"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/[\d.]+" (?P<status>\d{3}) (?P<size>\d+|-)'
)
GAP = timedelta(minutes=30)
PATHS = ["/", "/products", "/products/42", "/cart", "/checkout", "/search?q=a%20b", "/static/app.js"]


def lines(count):
    when, state = datetime(2024, 3, 1, 8), 5
    for _ in range(count):
        state = (state * 48271) % 2147483647
        when += timedelta(seconds=state % 40)
        status = (200, 200, 200, 304, 404, 500)[state // 7 % 6]
        size = "-" if status == 304 else state % 9000
        user = f"u{state // 11 % 25}"
        path = PATHS[state // 13 % len(PATHS)]
        yield f'10.0.{state % 4}.{state // 3 % 200} - {user} [{when:%d/%b/%Y:%H:%M:%S} +0000] "GET {path} HTTP/1.1" {status} {size}'
        if state % 200 == 0:
            yield "malformed line " + "x" * (state % 20)


hits, statuses, traffic = Counter(), Counter(), Counter()
sessions = defaultdict(list)
bad = 0
for line in lines(4500):
    match = LINE.match(line)
    if match is None:
        bad += 1
        continue
    entry = match.groupdict()
    when = datetime.strptime(entry["when"], "%d/%b/%Y:%H:%M:%S %z")
    path = re.sub(r"\?.*|/\d+", "", entry["path"]) or "/"
    hits[path] += 1
    statuses[int(entry["status"]) // 100] += 1
    traffic[when.hour] += 0 if entry["size"] == "-" else int(entry["size"])
    visits = sessions[entry["user"]]
    if visits and when - visits[-1]["end"] <= GAP:
        visits[-1]["end"] = when
        visits[-1]["pages"].append(path)
    else:
        visits.append({"start": when, "end": when, "pages": [path]})

print("bad lines:", bad)
for path, count in hits.most_common():
    print(f"{path:<16}{count:>6}")
print({f"{status}xx": count for status, count in sorted(statuses.items())})
lengths = [(visit["end"] - visit["start"]).total_seconds() / 60 for visits in sessions.values() for visit in visits]
print(f"{len(lengths)} sessions, {sum(lengths) / len(lengths):.2f} minutes on average, at most {max(lengths):.1f}")
funnel = sum("/cart" in v["pages"] and "/checkout" in v["pages"] for visits in sessions.values() for v in visits)
print("reached the checkout:", funnel, "busiest hour:", traffic.most_common(1)[0][0])
