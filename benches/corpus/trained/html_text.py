from html import escape, unescape
from html.parser import HTMLParser

page = "<html><body>" + "".join(
    f"<div class='c{i}'><h2>Title {i} &amp; more</h2><p>Text <b>bold</b> <a href='/x/{i}'>link</a></p></div>"
    for i in range(120)
) + "</body></html>"


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.text, self.depth = [], [], 0

    def handle_starttag(self, tag, attributes):
        self.depth += 1
        if tag == "a":
            self.links.append(dict(attributes)["href"])

    def handle_endtag(self, tag):
        self.depth -= 1

    def handle_data(self, data):
        self.text.append(data.strip())


parser = Links()
parser.feed(page)
print(len(parser.links), parser.depth, len(" ".join(parser.text)), unescape(escape("<a & b>")))
