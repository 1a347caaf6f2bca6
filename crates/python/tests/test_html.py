"""Rendering for notebooks, with untrusted contents."""

from html.parser import HTMLParser

import pytest


class Tags(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


HARMLESS = {"div", "pre", "code", "table", "thead", "tbody", "tr", "th", "td", "img"}


def tags_of(text):
    tags = Tags(text).tags
    assert {tag for tag, _ in tags} <= HARMLESS
    for _, attributes in tags:
        assert set(attributes) <= {"style", "alt", "src"}
    return tags


def test_text_and_errors(runtime):
    run = runtime.run("print('<script>alert(1)</script>')\nresult = '<b>'\n1 / 0", image="core")
    page = run._repr_html_()
    tags_of(page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "ZeroDivisionError" in page
    assert "&lt;b&gt;" in page


def test_tables(runtime):
    code = """
import pandas as pd
pd.set_option("display.max_colwidth", None)
df = pd.DataFrame({"<img src=x onerror=alert(1)>": ["</td><script>", 2], "b": [1, None]})
df.index = ["<i>", "x"]
result = df
"""
    run = runtime.run(code, capture={"table_rows": 5})
    assert run.error is None
    page = run._repr_html_()
    names = [tag for tag, _ in tags_of(page)]
    assert "table" in names
    assert "img" not in names
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "2 × 2" in page


def test_figures(runtime):
    code = "import matplotlib.pyplot as plt\nplt.plot([1])"
    run = runtime.run(code, timeout=60)
    [picture] = [attributes for tag, attributes in tags_of(run._repr_html_()) if tag == "img"]
    assert picture["src"].startswith("data:image/png;base64,")
    inline = runtime.run(code, timeout=60, capture={"inline_images": True}).outcome
    assert [tag for tag, _ in tags_of(inline._repr_html_())].count("img") == 1


@pytest.mark.parametrize(
    "content", ["b'<html><script>alert(1)</script>'", "b'\\x89PNG'", "b''", "b'GIF89a'"]
)
def test_what_is_no_picture_is_not_shown(runtime, content):
    code = f"""
import matplotlib.figure, matplotlib.pyplot as plt
plt.plot([1])
plt.savefig("a\\"><script>.png")
open('a"><script>.png', "wb").write({content})
plt.close("all")
"""
    run = runtime.run(code, timeout=60)
    assert len(run.plots) == 1
    tags = tags_of(run._repr_html_())
    assert "img" not in [tag for tag, _ in tags]


def test_long_output_is_cut(runtime):
    run = runtime.run("print('x' * 100_000)", image="core")
    assert len(run._repr_html_()) < 30_000
