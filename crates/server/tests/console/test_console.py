"""What the console is for: each feature, as a person uses it."""

import json
import subprocess

from conftest import COMMAND, Console, start


def test_a_key_is_asked_for_and_stays_in_the_tab(browser, server):
    console = Console(browser, server, key=False)
    page = console.page
    page.fill("dialog.key input", "belljar_wrong")
    page.click("text=Use the key")
    page.wait_for_selector("dialog.key >> text=does not know this key")
    page.fill("dialog.key input", server.key)
    page.click("text=Use the key")
    assert "Succeeded" in console.run("print(6 * 7)").inner_text()
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    assert page.evaluate("Object.values(sessionStorage)") == [server.key]
    sent = [request for request in console.requests if "/v1/" in request.url]
    assert sent and all(server.key not in request.url for request in sent)
    assert sent[-1].headers["authorization"] == f"Bearer {server.key}"
    other = console.context.new_page()
    other.goto(server.url)
    other.wait_for_selector("dialog.key")
    page.click("#key-button")
    page.click("text=Forget the key")
    page.wait_for_selector("dialog.key")
    assert page.evaluate("sessionStorage.length") == 0
    console.close()


def test_a_server_without_keys_asks_for_none(browser, open_server):
    console = Console(browser, open_server)
    assert "42" in console.run("print(6 * 7)").inner_text()
    assert console.page.locator("dialog").count() == 0
    console.close()


def test_the_console_works_below_a_path(browser):
    below = start("--no-auth", "--base-path", "/some/where")
    console = Console(browser, below, path="")
    assert "42" in console.run("print(6 * 7)").inner_text()
    console.close()
    below.stop()


def test_a_run_is_shown_as_it_happens(console):
    code = """import time
print("first \\x1b[31mred\\x1b[0m")
time.sleep(1.5)
print("second")"""
    shown = console.run(code, ends=False)
    shown.locator("text=first").wait_for()
    assert "second" not in shown.inner_text()
    assert shown.locator(".c1").inner_text() == "red"
    shown.locator("text=Succeeded").wait_for()
    assert "second" in shown.inner_text()
    meters = shown.locator(".meters").inner_text()
    for name in ["Time", "Fuel", "Memory", "Output", "Files"]:
        assert name in meters


def test_displays_tables_results_and_figures(console):
    code = """import pandas as pd
import matplotlib.pyplot as plt
frame = pd.DataFrame({"city": ["Oslo", "Rome"], "degrees": [3.5, 18.25]})
display(frame)
plt.plot([1, 3, 2])
plt.show()
handle = display("before", display_id="one")
handle.update("after")
result = {"answer": 42}"""
    shown = console.run(code)
    frame = shown.frame_locator("iframe").locator("table")
    assert "Oslo" in frame.inner_text()
    assert shown.locator("iframe").get_attribute("sandbox") == ""
    image = shown.locator("img")
    image.scroll_into_view_if_needed()
    console.page.wait_for_function("document.querySelector('.run img').naturalWidth > 100")
    text = shown.inner_text()
    assert "'after'" in text and "'before'" not in text
    assert '"answer": 42' in text
    assert "18.25" in shown.locator("table >> text=18.25").inner_text()


def test_an_error_marks_its_line(console):
    shown = console.run("def f():\n    return 1 / 0\n\nprint('so far')\nf()")
    assert "so far" in shown.inner_text()
    assert "ZeroDivisionError: division by zero" in shown.locator(".error h3").inner_text()
    assert "return 1 / 0" in shown.locator("mark").inner_text() or "f()" in shown.locator("mark").inner_text()
    shown.locator("summary >> text=Traceback").click()
    assert 'File "<string>"' in shown.inner_text()


def test_files_are_previewed_and_saved(console):
    code = """open("table.csv", "w").write("name,size\\nada,1\\n")
open("data.bin", "wb").write(bytes(range(256)))
open("notes.txt", "w").write("some notes")"""
    shown = console.run(code)
    page = console.page
    shown.locator("[aria-label='Preview table.csv']").click()
    assert "ada" in shown.locator("td >> text=ada").inner_text()
    shown.locator("[aria-label='Preview data.bin']").click()
    shown.locator("pre >> text=0010  10 11 12").wait_for()
    with page.expect_download() as saved:
        shown.locator("[aria-label='Download notes.txt']").click()
    assert saved.value.suggested_filename == "notes.txt"
    assert open(saved.value.path()).read() == "some notes"


def test_a_run_is_stopped(console):
    shown = console.run("print('begun')\nwhile True: pass", ends=False)
    shown.locator("text=begun").wait_for()
    console.page.click("button >> text=Stop")
    shown.locator("text=Stopped").wait_for()
    assert "42" in console.run("print(6 * 7)").inner_text()


def test_limits_end_a_run(console):
    page = console.page
    page.click("text=Limits and inputs")
    page.get_by_label("Time, seconds").fill("0.3")
    shown = console.run("while True: pass")
    assert "timed out after 0.3 seconds" in shown.inner_text()
    assert shown.locator(".meter.full").count() >= 1
    page.get_by_label("Policy").select_option("strict")
    assert "SecurityError" in console.run("import os").inner_text()


def test_uploads_and_standard_input(console):
    page = console.page
    page.click("text=Limits and inputs")
    page.get_by_label("Files", exact=False).first.set_input_files(
        {"name": "in.txt", "mimeType": "text/plain", "buffer": b"uploaded"}
    )
    page.get_by_label("Standard input").fill("a line\n")
    shown = console.run("print(open('in.txt').read(), input())")
    assert "uploaded a line" in shown.inner_text()


def test_input_and_tools_are_answered_in_place(console):
    shown = console.run("name = input('Who? ')\nprint('Hello', name)", ends=False)
    shown.locator(".ask input").fill("Ada")
    shown.locator(".ask input").press("Enter")
    shown.locator("text=Hello Ada").wait_for()
    page = console.page
    page.click("text=Limits and inputs")
    page.get_by_label("Tools", exact=False).fill('[{"name": "price"}]')
    shown = console.run("import tools\nprint(tools.price(of='tea') + 1)", ends=False)
    assert '{"of":"tea"}' in shown.locator(".ask").inner_text()
    shown.locator(".ask input").fill("41")
    shown.locator(".ask input").press("Enter")
    shown.locator("text=42").first.wait_for()


def test_a_session_is_a_tree(console, session):
    page = console.go("sessions")
    page.wait_for_selector(".row >> nth=5")
    assert [row.split("\n")[1] for row in page.locator(".row").all_inner_texts()] == [f"#{n}" for n in range(6)]
    page.click(".row >> nth=2")
    page.click("button >> text=Fork here")
    page.wait_for_selector(".head >> nth=1")
    # The fork is at run 2, and shares its first runs with the other.
    assert page.locator(".row").count() == 6
    fork = page.locator(".row").nth(2).locator(".head").inner_text()
    assert session[:8] == page.locator(".row").nth(5).locator(".head").inner_text() != fork
    console.run("branch = True")
    page.wait_for_selector(".row.branch")
    branch = page.locator(".row.branch")
    assert branch.get_attribute("aria-level") == "2" and "branch = True" in branch.inner_text()
    assert "2 sessions, 6 runs" in page.inner_text("main")


def test_two_states_are_compared(console, session, server):
    page = console.go("sessions")
    page.click(".row >> nth=1")
    page.keyboard.press("c")
    page.wait_for_selector(".row.marked")
    page.click(".row >> nth=4")
    page.keyboard.press("c")
    shown = page.wait_for_selector(".difference").inner_text()
    assert "total\tchanged\tint: 1\tint: 42" in shown
    assert "words\tnew\t\tlist: ['a']" in shown
    assert "notes.txt\tnew\t\t3 B" in shown
    # Looking at states leaves nothing.
    assert len(server.ask("GET", "/v1/sessions")["sessions"]) == 1


def test_a_session_goes_back_and_keeps_what_came_after(console, session, server):
    page = console.go("sessions")
    page.click(".row >> nth=3")
    page.keyboard.press("r")
    page.wait_for_selector("#status >> text=is back at run 3")
    assert len(server.ask("GET", "/v1/sessions")["sessions"]) == 2
    runs = server.ask("GET", f"/v1/sessions/{session}/history")["runs"]
    assert [run["execution"] for run in runs] == [1, 2, 3]
    page.wait_for_selector(".head >> nth=1")
    assert page.locator(".row").count() == 6
    page.click(".row >> nth=3")
    assert "42" in console.run("print(total)").inner_text()


def test_the_tree_is_used_with_keys(console, session):
    page = console.go("sessions")
    page.focus(".tree")
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.getAttribute('aria-posinset')") == "6"
    assert "Run 5" in page.inner_text(".details")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.getAttribute('aria-posinset')") == "5"
    page.keyboard.press("Home")
    assert page.evaluate("document.activeElement.getAttribute('aria-posinset')") == "1"


def test_variables_and_files_of_a_session(console, session):
    page = console.go("sessions")
    page.click(f"a[href='#/sessions/{session}']")
    page.click("button >> text=Variables and files")
    shown = page.wait_for_selector(".inside table").inner_text()
    assert "total\tint\t42" in shown
    page.click("[aria-label='Preview notes.txt']")
    page.wait_for_selector(".inside pre >> text=one")
    shown = console.run("while True: pass", ends=False)
    page.locator(".session button >> text=Stop").click()
    shown.locator("text=was interrupted").first.wait_for()
    page.click("button >> text=Close session")
    page.wait_for_selector("text=0 sessions")


def test_a_session_is_made(console, server):
    page = console.go("sessions")
    page.fill("form.inline input", "mine")
    page.click("button >> text=Create")
    page.wait_for_selector("h3 >> text=Session mine")
    assert "[1]" in console.run("[1]").inner_text()
    server.ask("DELETE", "/v1/sessions/mine")


def test_batches_are_graded(console):
    page = console.go("batch")
    lines = [{"id": n, "code": f"print({n} * 2)", "expect": str(n * 2 if n != 3 else 0)} for n in range(8)]
    lines.append({"id": "fails", "code": "1 / 0"})
    page.fill("main textarea", "\n".join(json.dumps(line) for line in lines))
    page.click("text=Run the batch")
    page.wait_for_selector("text=9 of 9 ended, 7 of 8 passed, 1 failed")
    page.click(".results .row >> text=ZeroDivisionError")
    assert "Traceback" in page.inner_text(".details")
    with page.expect_download() as saved:
        page.click("text=Download results")
    results = [json.loads(line) for line in open(saved.value.path())]
    assert sorted(str(one["id"]) for one in results) == sorted(str(line["id"]) for line in lines)
    assert [one["id"] for one in results if one.get("passed") is False] == [3]


def test_receipts_are_replayed(console, tmp_path):
    (tmp_path / "code.py").write_text("import random\nprint(random.random(), 1e16, 0.1)\nresult = {'b': 1.0, 'a': [None]}")
    receipt = tmp_path / "receipt.json"
    command = [COMMAND, "run", "code.py", "--deterministic=7", "--receipt", receipt]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    page = console.go("receipts")
    page.set_input_files("main input[type=file]", receipt)
    assert "random.random()" in page.inner_text("main pre")
    page.click("text=Replay here")
    page.wait_for_selector("text=The outcome is the same")
    altered = json.loads(receipt.read_text())
    altered["outcome"]["parts"]["stdout"] = "0" * 64
    receipt.write_text(json.dumps(altered))
    page.set_input_files("main input[type=file]", receipt)
    page.click("text=Replay here")
    page.wait_for_selector("text=The outcome differs in 1 parts")
    receipt.write_text('{"receipt": 9}')
    page.set_input_files("main input[type=file]", receipt)
    page.wait_for_selector("text=is not a receipt of version 1")


def test_the_server_shows_its_health_and_figures(console):
    page = console.go("server")
    page.wait_for_selector("td >> text=/readyz")
    page.wait_for_selector("td >> text=belljar_sessions")
    page.wait_for_selector("td >> text=science")


def test_limits_of_a_key_are_shown(browser, tmp_path):
    keys = tmp_path / "keys.toml"
    command = [COMMAND, "key", "create", "ada", "--keys", keys, "--runs-per-minute=60", "--concurrent-runs=4"]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    started = start("--keys", str(keys))
    started.key = next(word for word in made.stdout.split() if word.startswith("belljar_"))
    console = Console(browser, started)
    console.run("print(1)")
    page = console.go("server")
    shown = page.wait_for_selector("table >> text=Full again").inner_text()
    page.wait_for_selector("td >> text=runs")
    assert shown
    console.close()
    started.stop()


def test_operations_of_the_api_are_tried(console):
    page = console.go("api")
    page.wait_for_selector(".operation >> nth=20")
    page.get_by_label("Filter").fill("check code")
    operation = page.locator(".operation", has_text="/v1/check")
    operation.locator("summary").first.click()
    operation.locator("textarea").fill('{"code": "import os"}')
    operation.locator("text=Try POST").click()
    assert '"clean": false' in operation.locator(".answer").inner_text()
    page.get_by_label("Filter").fill("history")
    operation = page.locator(".operation", has_text="/history")
    operation.locator("summary").first.click()
    operation.get_by_label("id (path)").fill("not/there")
    operation.locator("text=Try GET").click()
    assert "session.not_found" in operation.locator(".answer").inner_text() or "404" in operation.inner_text()


def test_keys_of_the_keyboard(console):
    page = console.page
    page.keyboard.press("Tab")
    page.locator("body").click(position={"x": 600, "y": 10})
    page.keyboard.press("2")
    page.wait_for_selector("h2 >> text=Sessions")
    page.keyboard.press("?")
    page.wait_for_selector("dialog >> text=Ctrl+Enter")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    page.wait_for_selector("h2 >> text=Run")
    console.run("first = 1")
    console.run("second = 2")
    editor = page.locator(".prompt textarea.code").first
    editor.press("Alt+ArrowUp")
    editor.press("Alt+ArrowUp")
    assert editor.input_value() == "first = 1"
