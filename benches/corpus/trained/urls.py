from urllib.parse import parse_qs, quote, unquote, urlencode, urljoin, urlparse

urls = [f"https://user@host{i % 9}.org:80{i % 90:02}/a/b{i}/../c?x={i}&y=%20z&x=2#top" for i in range(900)]
hosts, total = {}, 0
for url in urls:
    parts = urlparse(url)
    hosts[parts.hostname] = hosts.get(parts.hostname, 0) + 1
    query = parse_qs(parts.query)
    total += int(query["x"][0]) + parts.port
    assert unquote(quote(parts.path)) == parts.path
print(sorted(hosts.items())[:2], total, urljoin(urls[0], "../d"), urlencode({"a": "b c", "d": [1]}, doseq=True))
