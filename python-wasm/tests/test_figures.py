"""Figures: shown, saved, left open, and failing."""

import sys

import pytest

PLOT = "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"


def plots(done, run=0):
    return [(one["path"], one["shown"]) for one in done.of("p", run)]


def test_open_figures_are_captured_at_the_end_by_number(runs):
    done = runs(PLOT + "plt.figure(3); plt.figure(1); plt.plot([1])\nplt.close(plt.figure(2))\n1/0")
    assert plots(done) == [("plots/plot_1.png", True), ("plots/plot_2.png", True)]
    names = [name for _, name, _ in done.frames]
    assert names.index("s") < names.index("p")
    for number in (1, 2):
        data = (runs.workspace / f"plots/plot_{number}.png").read_bytes()
        assert data.startswith(b"\x89PNG")


def test_show_captures_the_open_figures_there_and_then(runs):
    done = runs(
        PLOT + "plt.show()\n"
        "plt.plot([1]); plt.show()\n"
        "plt.plot([2]); plt.savefig('mine.png')\n"
        "plt.figure(); plt.show(); plt.show()\n"
        "plt.show()\n"
        "plt.figure()"
    )
    assert done.stdout == "No active figure to save.\n" * 3
    assert plots(done) == [
        ("plots/plot_1.png", True),
        ("mine.png", False),
        ("plots/plot_2.png", True),
        ("plots/plot_3.png", True),
        ("plots/plot_4.png", True),
    ]
    assert done.stderr == ""


def colours(*names):
    """The colours of each picture as integers."""
    return f"[(plt.imread(n)[5, 5] * 255).astype(int).tolist()[:3] for n in {names!r}]"


def test_show_takes_all_figures_by_number_and_closes_them(runs):
    done = runs(
        PLOT + "for number, colour in ((3, 'red'), (1, 'lime'), (2, 'blue')):\n"
        "    plt.figure(number, facecolor=colour)\n"
        "plt.show(); left = plt.get_fignums(); again = plt.figure().number; plt.close()\n"
        "result = [left, again, *" + colours(*(f"plots/plot_{n}.png" for n in (1, 2, 3))) + "]"
    )
    assert done.status()["status"] == "ok", done.stderr
    assert plots(done) == [(f"plots/plot_{number}.png", True) for number in (1, 2, 3)]
    assert done.value() == [[], 1, [0, 255, 0], [0, 0, 255], [255, 0, 0]]


def test_one_figure_that_cannot_be_drawn_does_not_keep_show_from_the_others(runs):
    done = runs(
        PLOT + "class Broken(matplotlib.artist.Artist):\n"
        "    def draw(self, renderer): raise ValueError('no')\n"
        "plt.figure(); plt.figure().add_artist(Broken()); plt.figure(); plt.show()\n"
        "result = plt.get_fignums()"
    )
    assert plots(done) == [("plots/plot_1.png", True), ("plots/plot_2.png", True)]
    assert done.value() == []
    assert len(done.of("w")) == 1


def test_savefig_after_show_saves_what_was_current_when_it_was_shown(runs):
    done = runs(
        PLOT + "plt.figure(1, facecolor='red'); plt.figure(2, facecolor='lime'); plt.figure(1)\n"
        "plt.show(); plt.savefig('a.png'); plt.savefig('b.png')\n"
        "fig = plt.figure(facecolor='blue'); plt.savefig('c.png'); fig.show()\n"
        "plt.savefig('d.png')\n"
        "result = " + colours("a.png", "b.png", "c.png", "d.png")
    )
    red, blue = [255, 0, 0], [0, 0, 255]
    assert done.value() == [red, red, blue, blue]
    assert plots(done) == [
        ("plots/plot_1.png", True),
        ("plots/plot_2.png", True),
        ("a.png", False),
        ("b.png", False),
        ("c.png", False),
        ("plots/plot_3.png", True),
        ("d.png", False),
    ]


def test_a_figure_that_begins_takes_the_place_of_the_one_shown(runs):
    done = runs(
        PLOT
        + "plt.figure(facecolor='red'); plt.show(); plt.figure(facecolor='lime'); plt.close()\n"
        "plt.savefig('a.png'); plt.close()\n"
        "plt.plot([1]); plt.show(); plt.plot([1, 2]); first = len(plt.gca().lines); plt.show()\n"
        "result = [first, *" + colours("a.png") + "]"
    )
    assert done.value() == [1, [255, 255, 255]]
    assert len(plots(done)) == 4


def test_a_session_does_not_save_what_an_earlier_run_showed(runs):
    done = runs.session(
        PLOT + "plt.figure(facecolor='red'); plt.show()",
        "plt.savefig('a.png')\nresult = " + colours("a.png"),
    )
    assert done.value(1) == [[255, 255, 255]]


def test_a_saved_figure_that_is_open_is_captured_too(runs):
    done = runs(PLOT + "plt.plot([1]); plt.savefig('b')")
    assert plots(done) == [("b.png", False), ("plots/plot_1.png", True)]


def test_a_figure_that_shows_itself_stays_open_and_is_captured_once(runs):
    done = runs(
        PLOT + "fig, ax = plt.subplots(); ax.plot([1]); fig.show(); plt.pause(0.001)\n"
        "other = plt.figure(); other.show(); other.add_subplot()\n"
        "third = plt.figure(facecolor='red'); plt.show(block=False)\n"
        "result = [plt.get_fignums(), fig is plt.figure(1), len(plt.gcf().axes)]"
    )
    assert done.value() == [[1, 2, 3], True, 1]
    # The second one changed after it was shown, so it is shown again with the third.
    assert [path for path, _ in plots(done)] == [f"plots/plot_{n}.png" for n in (1, 2, 3, 4)]


def test_what_changed_after_it_was_shown_is_captured_at_the_end(runs):
    done = runs(PLOT + "fig, ax = plt.subplots(); fig.show(); ax.plot([1, 2])")
    assert len(plots(done)) == 2
    done = runs.session(PLOT + "fig, ax = plt.subplots(); fig.show()", "fig.show()")
    assert [len(plots(done, run)) for run in (0, 1)] == [1, 1]


def test_a_plot_says_which_other_one_shows_the_same(runs):
    done = runs(
        PLOT + "plt.plot([1]); plt.savefig('a.png'); plt.savefig('b.png', dpi=300)\n"
        "plt.show(); plt.savefig('c.png')\n"
        "fig, ax = plt.subplots(); fig.savefig('d.png'); ax.plot([1])\n"
        "plt.figure(); plt.savefig('e.svg')"
    )
    repeats = {one["path"]: one.get("repeats") for one in done.of("p")}
    assert repeats == {
        "a.png": None,
        "b.png": "a.png",
        "plots/plot_1.png": "a.png",
        "c.png": "a.png",
        "d.png": None,
        "e.svg": None,
        "plots/plot_2.png": None,
        "plots/plot_3.png": "e.svg",
    }


@pytest.mark.parametrize(
    ("target", "reported"),
    [
        ("'sub/x.pdf'", "sub/x.pdf"),
        ("pathlib.Path('x.svg')", "x.svg"),
        ("os.path.abspath('x.png')", "x.png"),
        ("open('y.png', 'wb')", "y.png"),
        ("'plain', format='svg'", "plain.svg"),
        ("io.BytesIO()", None),
        ("'/tmp/belljar-outside.png'", None),
    ],
)
def test_where_figures_are_saved(runs, target, reported):
    done = runs(
        "import io, os, pathlib\nos.mkdir('sub')\n"
        + PLOT
        + f"fig = plt.figure(); fig.savefig({target}); plt.close()"
    )
    assert done.status()["status"] == "ok", done.stderr
    assert plots(done) == ([(reported, False)] if reported else [])


def test_a_path_is_relative_to_where_the_code_is(runs):
    done = runs(
        "import os\nos.mkdir('sub'); os.chdir('sub')\n" + PLOT + "plt.plot([1])\n"
        "plt.savefig('x.png'); plt.show()"
    )
    assert plots(done) == [("sub/x.png", False), ("plots/plot_1.png", True)]


def test_files_of_the_code_are_not_overwritten(runs):
    done = runs(
        "import os\nos.mkdir('plots'); open('plots/plot_1.png', 'w').write('mine')\n"
        "os.symlink('nowhere', 'plots/plot_2.png')\n" + PLOT + "plt.plot([1])"
    )
    assert plots(done) == [("plots/plot_3.png", True)]
    assert (runs.workspace / "plots/plot_1.png").read_text() == "mine"


def test_figure_objects_and_images(runs):
    done = runs(
        PLOT + "from matplotlib.figure import Figure\nfrom PIL import Image\n"
        "f = Figure(); f.subplots().plot([1]); f.show()\n"
        "g, ax = plt.subplots(); g.show()\n"
        "for mode in ('CMYK', 'F', '1', 'RGBA'): Image.new(mode, (4, 4)).show()\n"
    )
    assert plots(done) == [(f"plots/plot_{n}.png", True) for n in range(1, 7)]


def test_plotly(runs):
    pytest.importorskip("plotly")
    done = runs(
        "import plotly.graph_objects as go, plotly.io as pio\n"
        "fig = go.Figure(go.Bar(y=[1])); fig.show(); pio.show(fig)\npio.show({'data': []})"
    )
    assert done.status()["status"] == "ok", done.stderr
    assert plots(done) == [
        (f"plots/plot_{number}.{kind}", True) for number in (1, 2, 3) for kind in ("json", "html")
    ]
    assert "plotly" in (runs.workspace / "plots/plot_1.html").read_text()


def test_a_figure_that_cannot_be_drawn_costs_only_itself(runs):
    broken = (
        "class Broken(matplotlib.artist.Artist):\n"
        "    def draw(self, renderer): raise ValueError('no')\n"
        "plt.figure().add_artist(Broken())\n"
    )
    done = runs(PLOT + broken + "plt.show()\n" + broken + "plt.figure()")
    assert plots(done) == [("plots/plot_1.png", True)]
    assert [one["message"] for one in done.of("w")] == [
        "A figure cannot be drawn: ValueError: no",
        "Figure 1 cannot be drawn: ValueError: no",
    ]
    assert [path.name for path in (runs.workspace / "plots").iterdir()] == ["plot_1.png"]


def test_no_place_for_plots(runs):
    done = runs("open('plots', 'w')\n" + PLOT + "plt.figure()\nplt.show()")
    assert done.status()["status"] == "ok"
    assert "FileExistsError" in done.of("w")[0]["message"]


def options(**changes):
    return {"capture": True, "format": "png", "dpi": None, "max": 20, **changes}


def test_format_and_resolution(runs):
    done = runs(PLOT + "plt.figure()", figures=options(format="svg"))
    assert plots(done) == [("plots/plot_1.svg", True)]
    runs(PLOT + "plt.figure(figsize=(1, 1))", figures=options(dpi=37))
    data = (runs.workspace / "plots/plot_1.png").read_bytes()
    assert int.from_bytes(data[16:20], "big") == 37


def test_the_number_is_bounded(runs):
    done = runs(PLOT + "for n in range(3): plt.figure()\nplt.show()", figures=options(max=1))
    assert len(plots(done)) == 1
    assert done.of("w")[-1]["message"] == "2 figures were not captured: the limit is 1"


def test_nothing_is_captured_when_it_is_not_asked_for(runs):
    code = PLOT + "plt.plot([1]); plt.savefig('x.png'); plt.show(); plt.figure()"
    done = runs(code, figures=options(capture=False))
    assert plots(done) == []
    assert done.stderr == ""


def test_a_session_captures_each_figure_once(runs):
    done = runs.session(PLOT + "plt.figure()", "plt.plot([1])", "x = 1")
    assert [plots(done, run) for run in range(3)] == [
        [("plots/plot_1.png", True)],
        [("plots/plot_2.png", True)],
        [],
    ]


def test_what_was_imported_at_bake_is_patched_too(runs):
    order = runs.request(PLOT + "plt.plot([1]); plt.savefig('a.png'); plt.show()")
    done = runs.of([order], bake=PLOT + "plt.figure()")
    assert plots(done) == [("a.png", False), ("plots/plot_1.png", True)]


def test_an_exception_in_savefig_shows_no_frame_of_ours(runs):
    done = runs(PLOT + "plt.figure().savefig('x.unknown')")
    assert done.status()["type"] == "ValueError"
    assert "print_figure" in done.stderr
    assert "<belljar>" not in done.stderr


def test_warnings_are_the_codes_own(runs):
    glyph = "plt.title('\\U0001f9ff')\n"
    done = runs(PLOT + "\n" + glyph + "plt.savefig('x.png')\nplt.show()\n" + glyph)
    lines = [line for line in done.stderr.splitlines() if "Glyph" in line]
    if sys.version_info >= (3, 12):  # before, matplotlib looks for it by module name
        assert lines[0].startswith("<string>:6: UserWarning: Glyph")
        assert "<belljar>" not in done.stderr
    assert {line.partition(" missing")[0] for line in lines[1:]} == {
        "UserWarning: Glyph 129535 (\\N{NAZAR AMULET})"
    }


def test_fonts_are_kept_without_their_files(runs):
    done = runs(
        PLOT + "import os\n"
        "plt.title('text and $x^2$')\n"
        "for kind in ('png', 'pdf', 'svg', 'ps'): plt.savefig(f'x.{kind}')\n"
        "fds = [os.path.realpath(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')]\n"
        "from matplotlib import font_manager\n"
        "font = font_manager.get_font(font_manager.findfont('DejaVu Sans'))\n"
        "import io\n"
        "result = [[p for p in fds if p.endswith('.ttf')], os.path.isfile(font.fname),\n"
        "          io.open is open]"
    )
    assert done.status()["status"] == "ok", done.stderr
    assert done.value() == [[], True, True]


def test_a_font_has_the_size_that_was_set_last(runs):
    done = runs(
        PLOT + "from matplotlib.font_manager import findfont, get_font\n"
        "import matplotlib.ft2font as ft\n"
        "def heights(set_size):\n"
        "    other = get_font(findfont('cmr10'))\n"
        "    font = get_font([findfont('cmr10'), findfont('DejaVu Sans')])\n"
        "    set_size(font, 12, 100)\n"
        "    [first], [second] = font._layout('a', ft.LoadFlags.DEFAULT), "
        "font._layout('\\u044f', ft.LoadFlags.DEFAULT)\n"
        "    assert second.ft_object is not font\n"
        "    def look():\n"
        "        return [one.ft_object.load_glyph(one.glyph_index).height\n"
        "                for one in (first, second)]\n"
        "    found = [look()]\n"
        "    for one, size, dpi in [(font, 12.0, 100.0), (second.ft_object, 30, 100),\n"
        "                           (font, 12, 100), (other, 30, 100), (font, 24, 100),\n"
        "                           (font, 24, 50), (font, 24, 50)]:\n"
        "        set_size(one, size, dpi); found.append(look())\n"
        "    return found\n"
        "result = [heights(ft.FT2Font.set_size), heights(ft.FT2Font.set_size.__wrapped__)]"
    )
    assert done.status()["status"] == "ok", done.stderr
    ours, usual = done.value()
    assert ours == usual
    assert len({tuple(one) for one in usual}) == 3


STAND_IN = """\
import sys, types

class Figure:
    def __init__(self, number):
        self.number = number

    def savefig(self, path):
        if self.number == 2:
            raise ValueError("no")
        with open(path, "wb") as file:
            file.write(b"figure %d" % self.number)

pyplot = types.ModuleType("matplotlib.pyplot")
pyplot.get_fignums = lambda: [1, 2, 3]
pyplot.figure = Figure
sys.modules["matplotlib"] = types.ModuleType("matplotlib")
sys.modules["matplotlib.pyplot"] = sys.modules["matplotlib"].pyplot = pyplot
"""


def test_figures_of_a_stand_in_for_pyplot_are_saved_as_it_can(runs):
    done = runs(STAND_IN)
    assert plots(done) == [("plots/plot_1.png", True), ("plots/plot_3.png", True)]
    assert (runs.workspace / "plots/plot_3.png").read_bytes() == b"figure 3"
    assert [one["message"] for one in done.of("w")] == ["A figure cannot be saved: ValueError: no"]


@pytest.mark.parametrize(
    "line",
    [
        "pyplot.get_fignums = None",
        "pyplot.figure = 5",
        "del pyplot.get_fignums",
        "sys.modules['matplotlib.pyplot'] = None",
        "sys.modules['matplotlib.pyplot'] = 5",
        "pyplot.get_fignums = lambda: []",
    ],
)
def test_a_stand_in_without_figures_is_left_alone(runs, line):
    done = runs(STAND_IN + line)
    assert plots(done) == []
    assert done.of("w") == []
