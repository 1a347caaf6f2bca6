"""Displays: the forms of values, hostile hooks, and the order of frames."""

import base64

import pytest

PLOT = "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"


def shown(done, run=0):
    return [(one["kind"], one.get("data"), one.get("display_id")) for one in done.of("o", run)]


def forms(done, run=0):
    assert done.status(run)["status"] == "ok", done.stderr
    return [one["data"] for one in done.of("o", run)]


def notes(done):
    return [one["message"] for one in done.of("w")]


def test_without_a_reader_what_is_displayed_is_printed(runs):
    done = runs("display(1, 'a'); display({'text/plain': 'x', 'text/html': 'y'}, raw=True)")
    assert done.stdout == "1\n'a'\nx\n"
    assert done.of("o") == []


def test_a_value_comes_in_all_the_forms_that_it_offers(runs):
    done = runs(
        "class A:\n"
        "    def __repr__(self): return 'an A'\n"
        "    def _repr_html_(self): return '<b>A</b>'\n"
        "    def _repr_markdown_(self): return '**A**', {'width': 3}\n"
        "    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\nrest'\n"
        "    def _repr_json_(self): return {'a': [1, (2,)]}\n"
        "    def _repr_latex_(self): return None\n"
        "display(A())",
        displays=True,
    )
    (frame,) = done.of("o")
    assert frame["data"] == {
        "text/plain": "an A",
        "text/html": "<b>A</b>",
        "text/markdown": "**A**",
        "image/png": base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode(),
        "application/json": {"a": [1, [2]]},
    }
    assert frame["metadata"] == {"text/markdown": {"width": 3}}
    assert done.stdout == ""


def test_a_bundle_comes_before_single_forms(runs):
    done = runs(
        "class A:\n"
        "    def _repr_mimebundle_(self, include=None, exclude=None):\n"
        "        return {'text/html': 'b', 'e2b/x': 'y'}, {'text/html': {'z': 1}}\n"
        "    def _repr_html_(self): raise ValueError\n"
        "    def __repr__(self): return 'A'\n"
        "display(A()); display(A(), include=['text/html'])",
        displays=True,
    )
    first, second = done.of("o")
    assert first["data"] == {"text/plain": "A", "text/html": "b", "e2b/x": "y"}
    assert first["metadata"] == {"text/html": {"z": 1}}
    assert second["data"] == {"text/plain": "A", "text/html": "b"}
    assert notes(done) == []


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        ("_repr_html_(self): return 1", "has the type int, not str"),
        ("_repr_html_(self): raise ValueError('no')", "failed: ValueError: no"),
        ("_repr_html_(self): return '<' * (1 << 23)", "has more than"),
        ("_repr_png_(self): return b'no picture'", "does not begin as such a file does"),
        ("_repr_png_(self): return 'no base64!'", "neither bytes nor base64"),
        ("_repr_png_(self): return [1]", "has the type list, not bytes"),
        ("_repr_jpeg_(self): return b'\\x89PNG\\r\\n\\x1a\\n'", "does not begin as such"),
        ("_repr_json_(self): x = []; x.append(x); return [x] * 200_000", "too large or too deep"),
        ("_repr_mimebundle_(self, **k): return {'text': '1'}", "is not named by a media type"),
        ("_repr_mimebundle_(self, **k): return {1: '1'}", "is not named by a media type"),
        ("_repr_mimebundle_(self, **k): return {f'a/{n}': '' for n in range(99)}", "one too many"),
    ],
)
def test_what_a_form_is_not_costs_only_that_form(runs, hook, says):
    done = runs(
        f"class A:\n    def __repr__(self): return 'A'\n    def {hook}\ndisplay(A())\nprint('on')",
        displays=True,
    )
    (found,) = forms(done)
    assert found["text/plain"] == "A"
    assert not {"text/html", "image/png", "image/jpeg", "application/json"} & set(found)
    assert any(says in note for note in notes(done)), notes(done)
    assert done.stdout == "on\n"


def test_a_repr_that_fails_leaves_a_text(runs):
    done = runs("class A:\n    def __repr__(self): return 1 / 0\ndisplay(A())", displays=True)
    assert forms(done) == [{"text/plain": "<A object, whose repr failed>"}]


def test_what_has_everything_offers_nothing(runs):
    code = "from unittest.mock import MagicMock\nm = MagicMock(name='m')\ndisplay(m, MagicMock)"
    for data in forms(runs(code, displays=True)):
        assert set(data) == {"text/plain"}


def test_forms_that_are_too_large_together_lose_the_largest(runs):
    done = runs(
        "display({'text/plain': 'p', 'a/a': 'x' * 5_000_000, 'b/b': 'y' * 4_000_000}, raw=True)",
        displays=True,
    )
    (data,) = forms(done)
    assert set(data) == {"text/plain", "b/b"}
    assert "'a/a' is left out" in notes(done)[0]


def test_handles_update_what_they_displayed(runs):
    done = runs(
        "h = display('a', display_id=True)\nh.update('b')\ndisplay('c', display_id='mine')\n"
        "assert display('d') is None\nprint(h.display_id)",
        displays=True,
    )
    a, b, c, d = shown(done)
    assert (a[0], b[0], c[0], d[0]) == ("display", "update", "display", "display")
    assert a[2] == b[2] == done.stdout.strip()
    assert (c[2], d[2]) == ("mine", None)


def test_a_run_displays_a_bounded_number(runs):
    done = runs("for n in range(10_005): display(n)", displays=True)
    assert len(done.of("o")) == 10_000
    assert notes(done) == ["5 displays were dropped: the limit is 10,000"]


def test_the_last_expression_is_the_result(runs):
    done = runs("1\n'a'", displays=True, echo="display")
    assert shown(done) == [("result", {"text/plain": "'a'"}, None)]
    done = runs("2;", displays=True, echo="display")
    assert shown(done) == []
    assert runs("3", echo="display").stdout == "3\n"


def test_a_value_that_displays_itself_is_not_displayed_again(runs):
    done = runs(
        "class A:\n    def _ipython_display_(self): display('mine')\nA()",
        displays=True,
        echo="display",
    )
    assert shown(done) == [("display", {"text/plain": "'mine'"}, None)]


def test_figures_come_between_prints_where_they_were_shown(runs):
    done = runs(
        PLOT + "print('a')\nplt.plot([1, 2])\nplt.show()\ndisplay('b')\nplt.plot([1, 3])\n[1]",
        displays=True,
        echo="display",
    )
    names = [(name, one.get("kind")) for _, name, one in done.frames if name in "ops"]
    assert names == [
        ("p", None),
        ("o", "display"),
        ("o", "display"),
        ("o", "result"),
        ("s", None),
        ("p", None),
        ("o", "display"),
    ]
    first = done.of("o")[0]
    png = base64.b64decode(first["data"]["image/png"])
    assert png == (runs.workspace / "plots/plot_1.png").read_bytes()
    assert first["data"]["text/plain"] == "<Figure size 640x480 with 1 Axes>"
    assert first["metadata"] == {"belljar": {"paths": ["plots/plot_1.png"]}}


def test_a_figure_that_is_the_result_is_displayed_once(runs):
    done = runs(PLOT + "f, a = plt.subplots()\na.plot([1])\nf", displays=True, echo="display")
    assert [one["kind"] for one in done.of("o")] == ["result"]
    assert [one["path"] for one in done.of("p")] == ["plots/plot_1.png"]


def test_a_figure_that_was_displayed_and_changed_comes_again(runs):
    code = PLOT + "f, a = plt.subplots()\na.plot([1, 2])\ndisplay(f)\n"
    assert len(runs(code, displays=True).of("o")) == 1
    done = runs(code + "a.plot([2, 1])", displays=True)
    assert [one["kind"] for one in done.of("o")] == ["display", "display"]


def test_figures_that_are_not_saved_are_displayed(runs):
    figures = {"capture": False, "format": "svg", "dpi": None, "max": 20}
    done = runs(PLOT + "plt.plot([1, 2])\nplt.show()", displays=True, figures=figures)
    (data,) = forms(done)
    assert data["image/svg+xml"].startswith("<?xml")
    assert done.of("p") == []
    assert not (runs.workspace / "plots").exists()


def test_figures_are_captured_without_a_reader(runs):
    done = runs(PLOT + "f = plt.figure()\ndisplay(f)\nplt.close(f)")
    assert [one["path"] for one in done.of("p")] == ["plots/plot_1.png"]
    assert done.stdout == ""


def test_images_and_plotly_figures(runs):
    done = runs(
        "from PIL import Image\nimport plotly.graph_objects as go\n"
        "display(Image.new('RGB', (2, 2)))\ngo.Figure(go.Bar(y=[1, 2]))",
        displays=True,
        echo="display",
    )
    image, figure = forms(done)
    assert set(image) == {"text/plain", "image/png"}
    assert figure["application/vnd.plotly.v1+json"]["data"][0]["type"] == "bar"
    assert figure["text/html"].startswith("<div")
    names = ["plot_1.png", "plot_2.json", "plot_2.html"]
    assert [one["path"] for one in done.of("p")] == [f"plots/{name}" for name in names]


def test_tables_have_a_page_and_a_text(runs):
    done = runs(
        "import pandas as pd\nd = pd.DataFrame({'a': [1]})\ndisplay(d, d['a'])", displays=True
    )
    for data in forms(done):
        assert "<table" in data["text/html"]
        assert "0" in data["text/plain"]


def test_a_report_of_an_error_is_marked_as_such(runs):
    done = runs("1 / 0", displays=True)
    assert [name for _, name, _ in done.frames][:2] == ["t", "s"]
    assert runs("1 / 0").of("t") == []


PRETTY = """
class Tree:
    def __init__(self, name, *below): self.name, self.below = name, list(below)
    def __repr__(self): return 'the repr'
    def _repr_pretty_(self, p, cycle):
        if cycle:
            p.text('Tree(...)')
            return
        with p.group(5, 'Tree(', ')'):
            p.pretty(self.name)
            for one in self.below:
                p.text(',')
                p.breakable()
                p.pretty(one)
"""


def test_a_value_lays_its_text_out_itself(runs):
    code = (
        "small = Tree('a', Tree('b'), (1,), {'k': [2, {3}]})\n"
        "small.below.append(small)\n"
        "display(small)\n"
        "display(Tree('long', *[Tree('x' * 20, 1) for _ in range(3)]))\n"
        "display([small])\n"  # a list has the repr of lists
        "display(Tree)"
    )
    done = runs(PRETTY + code, displays=True)
    texts = [data["text/plain"] for data in forms(done)]
    line = "Tree('xxxxxxxxxxxxxxxxxxxx', 1)"
    assert texts == [
        "Tree('a', Tree('b'), (1,), {'k': [2, {3}]}, Tree(...))",
        f"Tree('long',\n     {line},\n     {line},\n     {line})",
        "[the repr]",
        "<class '__main__.Tree'>",
    ]


def test_a_layout_that_fails_or_never_ends_costs_only_itself(runs):
    define = "(Tree):\n    def _repr_pretty_(self, p, cycle): "
    code = (
        f"class Bad{define}p.end_group(); 1/0\n"
        f"class Deep{define}p.text('<'); p.pretty(Deep('a'))\n"
        f"class Long{define}\n        while True: p.text('ab'); p.break_()\n"
        f"class Open{define}p.begin_group(2, '('); p.text('x')\n"
        "for kind in (Bad, Deep, Long, Open): display(kind('a'))"
    )
    done = runs(PRETTY + code, displays=True)
    bad, deep, long, left_open = (data["text/plain"] for data in forms(done))
    assert (bad, left_open) == ("the repr", "(x")
    assert deep.endswith("<...")
    assert len(deep) < 100
    assert long.startswith("ab\nab\n")
    assert len(long) <= 100_000
    assert "_repr_pretty_ of a displayed Bad failed" in notes(done)[0]
