"""What matplotlib does less for a drawing changes none."""

import pytest

SHORT = (
    "import io, datetime, logging, matplotlib\n"
    "import numpy as np\n"
    "from matplotlib import axis, font_manager, markers, pyplot as plt, text\n"
    "logging.disable()\n"
    "x = np.linspace(0.1, 10, 50)\n"
    "SHORT = [(matplotlib.RcParams, '__getitem__'), (markers.MarkerStyle, '__init__'),\n"
    "         (font_manager.FontManager, '_find_fonts_by_props'), (text.Text, '_get_layout'),\n"
    "         (axis.Axis, 'get_major_ticks'), (axis.Axis, 'get_minor_ticks')]\n"
    "def usual():\n"
    "    for owner, name in SHORT: setattr(owner, name, getattr(owner, name).__wrapped__)\n"
    "def drawn():\n"
    "    file = io.BytesIO()\n"
    "    draw()\n"
    "    plt.savefig(file)\n"
    "    plt.close('all')\n"
    "    return file.getvalue()\n"
)

DRAWINGS = {
    "a line": "plt.plot([1, 2, 3], [4, 1, 2])",
    "logarithms": "plt.loglog(x, x**3); plt.grid(True, which='both')",
    "turned ticks": """
        fig, axes = plt.subplots(2, 2, sharex=True)
        axes[0, 0].plot(x, np.sin(x), 'o-')
        axes[0, 0].tick_params(axis='x', rotation=30, labelcolor='r', direction='in', length=9)
        axes[1, 1].minorticks_on()
        axes[1, 1].grid(True, which='minor', alpha=0.3)
        fig.tight_layout()""",
    "a style": """
        with plt.style.context('dark_background'):
            plt.semilogx(x, x)
            plt.twinx().plot(x, -x)""",
    "settings": """
        with plt.rc_context({'xtick.minor.visible': True, 'axes.grid': True,
                             'ytick.direction': 'inout', 'font.family': ['No Such', 'serif'],
                             'path.sketch': (1, 100, 2)}):
            plt.plot(x)""",
    "a circle": "plt.subplot(projection='polar').plot(x, x)",
    "space": "plt.figure().add_subplot(projection='3d').plot(x, x, x)",
    "dates": """
        plt.plot([datetime.date(2024, 1, day + 1) for day in range(20)], range(20))
        plt.gcf().autofmt_xdate()""",
    "spines": """
        axes = plt.subplots()[1]
        axes.plot(x)
        axes.spines['left'].set_position('center')
        axes.xaxis.set_ticks_position('top')""",
    "changed ticks": """
        fig, axes = plt.subplots()
        axes.plot(x)
        fig.canvas.draw()
        axes.get_xticklabels()[2].set_color('red')
        axes.xaxis.get_major_ticks()[1].label1.set_fontsize(20)
        axes.xaxis.majorTicks[0].tick1line.set_markersize(12)
        axes.set_xticks(range(0, 400, 20))""",
    "markers": """
        plt.plot(x, marker=markers.MarkerStyle('o').scaled(2).rotated(deg=30), label='$x^2$')
        plt.plot(-x, marker=markers.MarkerStyle(markers.MarkerStyle('^', 'left')))
        plt.legend()""",
}


@pytest.mark.parametrize("code", DRAWINGS.values(), ids=list(DRAWINGS))
def test_the_drawing_is_the_same(runs, code):
    lines = [line.removeprefix("        ") for line in code.strip("\n").splitlines()]
    draw = "def draw():\n" + "".join(f"    {line}\n" for line in lines)
    done = runs(SHORT + draw + "drawn()\nshort = drawn()\nusual()\nresult = [short == drawn()]")
    assert done.value() == [True], done.stderr


def test_most_ticks_are_copies(runs):
    done = runs(
        SHORT + "made, make = [], axis.Tick.__init__\n"
        "def count(self, *args, **kwargs):\n"
        "    made.append(self)\n"
        "    make(self, *args, **kwargs)\n"
        "axis.Tick.__init__ = count\n"
        "fig, axes = plt.subplots()\n"
        "axes.plot([1, 2, 3])\n"
        "fig.canvas.draw()\n"
        "one, two = axes.xaxis.majorTicks[2:4]\n"
        "two.label1.get_fontproperties().set_size(30)\n"
        "two.add_callback(print)\n"
        "two.gridline.set_color('red')\n"
        "result = [len(made) < 10, len(axes.xaxis.majorTicks) > 6, one.label1.get_fontsize(),\n"
        "          one._callbacks.callbacks, one.gridline.get_color() == 'red',\n"
        "          one.axes is two.axes is axes, two.tick1line.get_transform() is not None]"
    )
    assert done.value() == [True, True, 10.0, {}, False, True, True], done.stderr


def test_a_new_font_is_found(runs):
    done = runs(
        SHORT + "import dataclasses, shutil\n"
        "def fonts(family):\n"
        "    text = plt.text(0, 0, 'a', family=family)\n"
        "    return font_manager.fontManager._find_fonts_by_props(text.get_fontproperties())\n"
        "before = fonts(['Ours', 'monospace'])\n"
        "path = shutil.copy(font_manager.findfont('cmr10'), 'ours.ttf')\n"
        "font_manager.fontManager.addfont(path)\n"
        "fonts_known = font_manager.fontManager.ttflist\n"
        "fonts_known.append(dataclasses.replace(fonts_known[-1], name='Ours'))\n"
        "after = fonts(['Ours', 'monospace'])\n"
        "matplotlib.rcParams['font.monospace'] = ['cmr10']\n"
        "names = [[str(path).rpartition('/')[2] for path in found]\n"
        "         for found in (before, after, fonts(['monospace']))]\n"
        "result = names"
    )
    assert done.value() == [
        ["DejaVuSansMono.ttf"],
        ["ours.ttf", "DejaVuSansMono.ttf"],
        ["cmr10.ttf"],
    ]


def test_a_removed_font_is_not_found_after_another_is_added(runs):
    done = runs(
        SHORT + "import shutil\n"
        "known = font_manager.fontManager\n"
        "path = shutil.copy(font_manager.findfont('DejaVu Serif'), 'ours.ttf')\n"
        "label = plt.figure().text(0, 0, 'a', family='cmr10')\n"
        "renderer = label.figure.canvas.get_renderer()\n"
        "usual_layout = text.Text._get_layout.__wrapped__\n"
        "def look():\n"
        "    fonts = known._find_fonts_by_props(label.get_fontproperties())\n"
        "    layout = label._get_layout(renderer)\n"
        "    same = layout[1:] == usual_layout(label, renderer)[1:]\n"
        "    return [str(fonts[0]).rpartition('/')[2], same]\n"
        "before, count = look(), len(known.ttflist)\n"
        "known.ttflist.remove(next(font for font in known.ttflist if font.name == 'cmr10'))\n"
        "known.addfont(path)\n"
        "del known.ttflist[count:]\n"
        "result = [before, look()]"
    )
    assert done.value() == [["cmr10.ttf", True], ["DejaVuSans.ttf", True]], done.stderr


@pytest.mark.parametrize("family", ["'No Such'", "['No Such', 'serif']", "'cmr10'"])
def test_matplotlib_warns_of_missing_fonts_as_often(runs, family):
    done = runs(
        SHORT + "logging.disable(logging.NOTSET)\n"
        "said = []\n"
        "class Handler(logging.Handler):\n"
        "    def emit(self, record): said.append(record.getMessage())\n"
        "logging.getLogger('matplotlib').addHandler(Handler())\n"
        "def draw():\n"
        "    plt.figure().text(0.5, 0.5, 'a')\n"
        "    plt.plot([1, 2, 3])\n"
        "    plt.gcf().canvas.draw()\n"
        f"matplotlib.rcParams['font.family'] = {family}\n"
        "drawn()\n"
        "said.clear()\n"
        "drawn()\n"
        "short = said.copy()\n"
        "said.clear()\n"
        "usual()\n"
        "drawn()\n"
        "result = [short == said, any('No Such' in one for one in said)]"
    )
    assert done.value() == [True, "No Such" in family], done.stderr


def test_markers_that_change_are_copied_whole(runs):
    done = runs(
        SHORT + "own = markers.MarkerStyle(matplotlib.path.Path([[0, 0], [1, 1]]))\n"
        "other, named = markers.MarkerStyle(own), markers.MarkerStyle('o')\n"
        "turned = named.rotated(deg=45)\n"
        "copy = markers.MarkerStyle(named)\n"
        "result = [other._path is own._path, named.get_user_transform() is None,\n"
        "          turned.get_user_transform() is None, copy._path is named._path]"
    )
    assert done.value() == [False, True, False, True], done.stderr


def test_a_changed_text_is_laid_out_again(runs):
    done = runs(
        SHORT + "fig = plt.figure()\n"
        "label = fig.text(0.5, 0.5, 'two\\nlines')\n"
        "usual_layout = text.Text._get_layout.__wrapped__\n"
        "fig.canvas.draw()\n"
        "renderer = fig.canvas.get_renderer()\n"
        "def same():\n"
        "    one, two = label._get_layout(renderer), usual_layout(label, renderer)\n"
        "    return [one[0].bounds == two[0].bounds, one[1:] == two[1:]]\n"
        "found = [same()]\n"
        "for change in (\n"
        "    dict(text='other'), dict(fontsize=20), dict(rotation=30), dict(ha='right'),\n"
        "    dict(va='top'), dict(text='a\\nb\\nc'), dict(ma='right'), dict(linespacing=3),\n"
        "    dict(family='monospace'), dict(weight='bold'), dict(rotation_mode='anchor'),\n"
        "    dict(text='$x^2$'), dict(text='x'), dict(wrap=True),\n"
        "):\n"
        "    label.set(**change)\n"
        "    found.append(same())\n"
        "fig.set_dpi(50)\n"
        "found.append(same())\n"
        "label.set_family('serif')\n"
        "found.append(same())\n"
        "matplotlib.rcParams['font.serif'] = ['cmr10']\n"
        "found.append(same())\n"
        "bounds, lines, _ = label._get_layout(renderer)\n"
        "lines.clear()\n"
        "label.set_wrap(False)\n"
        "label._get_layout(renderer)[1].clear()\n"
        "result = [all(map(all, found)), len(found), len(label._get_layout(renderer)[1])]"
    )
    assert done.value() == [True, 18, 1], done.stderr
