import re
from collections import Counter

LINE = re.compile(r'(\d+\.\d+\.\d+\.\d+) - - \[([^\]]+)\] "(GET|POST) (\S+) HTTP/1\.\d" (\d{3}) (\d+)')
log = "\n".join(
    f'10.0.{i % 7}.{i % 251} - - [0{i % 9 + 1}/Jan/2024:10:{i % 60:02}:00 +0000] '
    f'"{"GET" if i % 4 else "POST"} /page/{i % 20} HTTP/1.1" {(200, 404, 500)[i % 11 % 3]} {i * 13 % 5000}'
    for i in range(2_500)
)
hits, errors, sent = Counter(), Counter(), 0
for line in log.splitlines():
    match = LINE.match(line)
    if match:
        host, _, method, path, status, size = match.groups()
        hits[path] += 1
        sent += int(size)
        if status != "200":
            errors[status, method] += 1
print(hits.most_common(3), sorted(errors.items()), sent)
