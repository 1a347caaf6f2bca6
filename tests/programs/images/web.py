"""What people do with the packages of `web`. Prints the same on the host's Python."""

import asyncio
import sys

import bs4
import html5lib
import httpx
import lxml.html
import requests

PAGE = """<!doctype html><title>Tea &amp; more</title><ul class=a><li>One<li>Two</ul>
<table><tr><th>n<th>m</tr><tr><td>1<td>2</tr></table><a href="/b?x=1&amp;y=2">there</a>"""

for parser in ("html.parser", "lxml", "html5lib"):
    soup = bs4.BeautifulSoup(PAGE, parser)
    print(parser, soup.title.text, [li.get_text(strip=True) for li in soup.select("ul.a > li")])
    print([[c.text.strip() for c in r.find_all(["td", "th"])] for r in soup.find_all("tr")])
tree = lxml.html.fromstring(PAGE, base_url="https://example.com/a/")
tree.make_links_absolute()
print(tree.xpath("//a/@href"), tree.findtext(".//td"))
print(len(list(html5lib.parse(PAGE, namespaceHTMLElements=False).iter())))

request = requests.Request("POST", "https://example.com/x", params={"q": "é"}, json={"a": 1})
prepared = request.prepare()
print(prepared.url, prepared.headers["Content-Type"], prepared.body)
print(httpx.URL("https://example.com/a?b=1").copy_merge_params({"c": "2"}))
client = httpx.Client(transport=httpx.MockTransport(lambda r: httpx.Response(200, json={"p": r.url.path})))
print(client.get("https://example.com/mocked").json())


async def fetch():
    async with httpx.AsyncClient() as client:
        await client.get("http://127.0.0.1:9/")


# Calls that need a network fail in the way that programs expect, with what to do instead.
calls = [
    (requests.RequestException, lambda: requests.get("http://127.0.0.1:9/", timeout=1)),
    (httpx.HTTPError, lambda: httpx.get("http://127.0.0.1:9/")),
    (httpx.HTTPError, lambda: asyncio.run(fetch())),
]
for kind, call in calls:
    try:
        call()
    except kind as error:
        print(type(error).__name__)
        if sys.platform == "wasi":
            assert "There is no network in this sandbox" in str(error), error
