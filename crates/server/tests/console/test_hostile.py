"""Hostile content wherever the console shows content: it must not run, load or mislead."""

import json

import pytest
from conftest import Console

# Sets a global in the page, its parent or the top if it runs in any of them.
SCRIPT = "for (const one of [self, parent, top]) try { one.pwned = 1 } catch {}"
IMAGE = f'<img src="x:" onerror="{SCRIPT}">'
PAYLOADS = f"""<script>{SCRIPT}</script>{IMAGE}<svg onload="{SCRIPT}"></svg><iframe srcdoc='<script>{SCRIPT}</script>'></iframe>"""
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" width="50" height="50" onload="{SCRIPT}"><script>{SCRIPT}</script><rect width="9" height="9"/><image href="http://evil.invalid/i"/></svg>'
LEADS_OUT = (
    '<meta http-equiv="refresh" content="0;url=http://evil.invalid/refresh">'
    '<link rel="stylesheet" href="http://evil.invalid/style"><img src="http://evil.invalid/image">'
    '<form action="http://evil.invalid/form"><button>b</button></form>'
    '<a id="out" href="http://evil.invalid/link" target="_top">a link out</a><base href="http://evil.invalid/">'
)


def is_clean(console):
    """Nothing has run, and nothing was asked of another server."""
    console.page.wait_for_timeout(300)
    for frame in console.page.frames:
        assert frame.evaluate("self.pwned") is None, frame.url
    outside = [one.url for one in console.requests if one.url.startswith("http") and not one.url.startswith(console.server.url)]
    assert outside == []
    assert console.page.url.startswith(console.server.url)


def test_the_payload_runs_where_it_is_let_to(browser):
    """The control: what the other tests have not run would run in a page that takes it as HTML."""
    page = browser.new_page()
    page.set_content("<p></p>")
    page.evaluate("html => { document.querySelector('p').innerHTML = html; }", PAYLOADS)
    page.wait_for_function("self.pwned === 1")
    page = browser.new_page()
    page.set_content(SVG)
    page.wait_for_function("self.pwned === 1")


def test_output_names_and_errors_are_text(console):
    code = f"""
payload = {PAYLOADS!r}
print(payload)
import sys
sys.stderr.write(payload + "\\n")
open("a" + payload.replace("/", "∕")[:60] + ".txt", "w").write(payload)
open("page.html", "w").write(payload)
open("image.svg", "w").write({SVG!r})
open("bad.png", "wb").write(payload.encode())
open("t.csv", "w").write(payload + "," + payload + "\\n" + payload)
result = {{payload: payload}}
import pandas as pd
globals()["frame"] = pd.DataFrame({{payload: [payload]}}, index=[payload])
raise type(payload[:30], (Exception,), {{}})(payload)"""
    shown = console.run(code)
    assert "<script>" in shown.inner_text()
    for name in ["page.html", "image.svg", "bad.png", "t.csv"]:
        shown.locator(f"[aria-label='Preview {name}']").click()
        console.page.wait_for_timeout(300)
        is_clean(console)
    is_clean(console)


@pytest.mark.parametrize(
    "content",
    [PAYLOADS, LEADS_OUT, SVG, "<plaintext>" + PAYLOADS],
    ids=["scripts", "leads-out", "svg", "plaintext"],
)
def test_html_displays_run_and_load_nothing(console, content):
    shown = console.run(f"display({{'text/html': {content!r}}}, raw=True)")
    frame = shown.locator("iframe")
    frame.scroll_into_view_if_needed()
    console.page.wait_for_timeout(500)
    if content is LEADS_OUT:
        console.page.frame_locator(".run iframe").locator("#out").click(timeout=3000, no_wait_after=True)
    assert frame.get_attribute("sandbox") == ""
    is_clean(console)


def test_images_run_nothing(console):
    code = f"""display({{'image/svg+xml': {SVG!r}}}, raw=True)
display({{'image/png': {PAYLOADS!r}, 'text/plain': {PAYLOADS!r}}}, raw=True)
display({{'text/x-{IMAGE}': {PAYLOADS!r}}}, raw=True)
display({{'application/javascript': {SCRIPT!r}}}, raw=True)
display({{'image/svg+xml': 'not an image'}}, raw=True)"""
    shown = console.run(code)
    shown.locator("img").first.scroll_into_view_if_needed()
    console.page.wait_for_function("document.querySelector('.run img').naturalWidth === 50")
    for summary in shown.locator("summary").all():
        summary.click()
    is_clean(console)


def test_an_svg_image_in_a_tab_of_its_own_has_no_origin(console):
    """Blobs would have that of the console, and could load scripts from files of runs."""
    shown = console.run(f"display({{'image/svg+xml': {SVG!r}}}, raw=True)\nopen('i.svg', 'w').write({SVG!r})")
    shown.locator("[aria-label='Preview i.svg']").click()
    console.page.wait_for_function("document.querySelectorAll('.run img').length === 2")
    for image in shown.locator("img").all():
        assert image.get_attribute("src").startswith("data:image/svg+xml")
    is_clean(console)


def test_escapes_and_reordering_are_made_visible(console):
    code = r"""print("\x1b]0;title\x07\x1b[2J\x1b[999;999Hin place\x1b[?1049h \x1b]8;;http://evil.invalid\x07link\x1b]8;;\x07")
print("a\u202eb\u2066c\x00d\x9b31m \u200b")
print("10%\r50%\r100%")
print("\x1bPq#0;2\x1b\\after \x1b[38;5;196mcoloured\x1b[0m")"""
    text = console.run(code).locator(".stream").inner_text()
    assert "in place" in text and "link" in text and "after coloured" in text
    assert "100%" in text and "50%" not in text
    assert not set("\x1b\u202e\u2066\x00\x9b\u200b\x07") & set(text), repr(text)
    assert "⟨U+202E⟩" in text
    is_clean(console)


def test_sessions_show_strangers_text_as_text(browser, server):
    labels = {IMAGE: PAYLOADS}
    made = server.ask("POST", "/v1/sessions", {"image": "core", "labels": labels})["id"]
    code = f"""globals()[{IMAGE!r}] = {PAYLOADS!r}
class Evil:
    def __repr__(self): return {PAYLOADS!r}
class Broken:
    def __repr__(self): raise SystemExit
evil, broken = Evil(), Broken()
open({"a" + IMAGE.replace("/", "|")!r}, "w").write({PAYLOADS!r})"""
    server.ask("POST", f"/v1/sessions/{made}/runs", {"code": code})
    server.ask("POST", f"/v1/sessions/{made}/runs", {"code": f"raise Exception({PAYLOADS!r})  # {IMAGE}"})
    console = Console(browser, server, path=f"/#/sessions/{made}")
    page = console.page
    page.click("button >> text=Variables and files")
    shown = page.wait_for_selector(".inside table").inner_text()
    assert "<script>" in shown and "SystemExit" in shown
    page.click(".row >> nth=0")
    page.keyboard.press("c")
    page.click(".row >> nth=2")
    page.keyboard.press("c")
    page.wait_for_selector(".difference")
    is_clean(console)
    # A name in the address that no session has.
    page.goto(f"{server.url}/#/sessions/{IMAGE.replace('/', '')}")
    page.wait_for_selector("text=There is no session")
    is_clean(console)
    assert console.errors == []
    console.close()
    server.ask("DELETE", f"/v1/sessions/{made}")


def test_batches_and_receipts_show_strangers_text_as_text(console, tmp_path):
    page = console.go("batch")
    line = {"id": IMAGE, "code": f"print({PAYLOADS!r})\nraise Exception({PAYLOADS!r})", "expect": PAYLOADS}
    page.fill("main textarea", json.dumps(line))
    page.click("text=Run the batch")
    page.click(".results .row >> nth=0")
    is_clean(console)
    receipt = tmp_path / "receipt.json"
    parts = {IMAGE: PAYLOADS}
    content = {"receipt": 1, "belljar": IMAGE, "image": {"name": PAYLOADS}, "request": {"code": PAYLOADS}, "outcome": {"sha256": IMAGE, "parts": parts}}
    receipt.write_text(json.dumps(content))
    page = console.go("receipts")
    page.set_input_files("main input[type=file]", receipt)
    page.wait_for_selector("table >> text=Signed")
    page.click("text=Replay here")
    page.wait_for_selector("text=not deterministic")
    is_clean(console)


def test_the_page_cannot_be_framed(browser, server):
    page = browser.new_page()
    page.route("http://framer.invalid/", lambda route: route.fulfill(body=f"<iframe src='{server.url}/'></iframe>", content_type="text/html"))
    page.goto("http://framer.invalid/")
    page.wait_for_timeout(500)
    assert all(frame.locator("nav").count() == 0 for frame in page.frames[1:])
    page.close()


def test_much_of_everything_is_bounded(console):
    code = """for n in range(400): display({"text/html": f"<p>{n}</p>"}, raw=True)
print("x" * 400_000)
print("\\n" * 60_000)
for n in range(600): open(f"f{n}", "w").close()
result = list(range(100_000))"""
    shown = console.run(code)
    assert shown.locator("iframe").count() <= 200
    count = console.page.evaluate("document.querySelectorAll('*').length")
    assert count < 12_000, count
    is_clean(console)
