import html
import re

SOURCE = """# Title

Some *emphasis* and **strong** text with `code` and a [link](http://x.org).

- one
- two & three

1. first
2. second

> quoted

Last paragraph.
""" * 25


def inline(text):
    text = html.escape(text)
    text = re.sub(r"`(.+?)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    text = re.sub(r"\*(.+?)\*", r"<em>\1</em>", text)
    return re.sub(r"\[(.+?)\]\((.+?)\)", r'<a href="\2">\1</a>', text)


out, kind = [], None
for line in SOURCE.splitlines():
    new = "ul" if line.startswith("- ") else "ol" if re.match(r"\d+\. ", line) else None
    if kind and new != kind:
        out.append(f"</{kind}>")
    if new and new != kind:
        out.append(f"<{new}>")
    kind = new
    if heading := re.match(r"(#+) (.*)", line):
        level = len(heading[1])
        out.append(f"<h{level}>{inline(heading[2])}</h{level}>")
    elif new:
        out.append(f"<li>{inline(line.split(' ', 1)[1])}</li>")
    elif line:
        out.append(f"<p>{inline(line)}</p>")
print(len("\n".join(out)), out[1])
