"""Pictures of figures: the same pixels as matplotlib's own, with less work."""

import struct
import zlib

import pytest

PLOT = (
    "import io, os\nimport matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"
    "import numpy as np\nfrom PIL import Image\n"
    "def draw():\n"
    "    fig, (one, two) = plt.subplots(1, 2)\n"
    "    one.plot([1, 3, 2], label='line'); one.legend(); one.set_title('title')\n"
    "    two.imshow(np.arange(12).reshape(3, 4), alpha=0.5)\n"
    "    return fig\n"
)


def chunks(data):
    """The chunks of a PNG file, with valid checksums, and those with pixels joined."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    found, at = [], 8
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size)[0] == zlib.crc32(kind + body)
        if found and found[-1][0] == kind == b"IDAT":
            found[-1][1] += body
        else:
            found.append([kind, body])
        at += 12 + size
    return found


# Each `save(fig, target)`, and whether it uses our encoder.
WAYS = {
    "plain": ("fig.savefig(target)", True),
    "named": ("fig.savefig(target, format='png')", True),
    "pyplot": ("plt.savefig(target)", True),
    "resolution": ("fig.savefig(target, dpi=43)", True),
    "tight": ("fig.savefig(target, bbox_inches='tight', pad_inches=0.3)", True),
    "transparent": ("fig.savefig(target, transparent=True)", True),
    "colour": ("fig.savefig(target, facecolor='#ff880080', edgecolor='red')", True),
    "metadata": ("fig.savefig(target, metadata={'Title': 'caf\\u00e9', 'Software': None})", True),
    "wide characters": ("fig.savefig(target, metadata={'Title': '\\u2603'})", True),
    "pillow's dpi": ("fig.savefig(target, pil_kwargs={'dpi': (10, 20)})", True),
    "canvas": ("fig.canvas.print_png(target)", True),
    "constrained": ("fig.set_layout_engine('constrained'); fig.savefig(target)", True),
    "level": ("fig.savefig(target, pil_kwargs={'compress_level': 9})", False),
    "optimize": ("fig.savefig(target, pil_kwargs={'optimize': True})", False),
    "no compression": ("fig.savefig(target, pil_kwargs={'compress_level': 0})", False),
    "strategy": ("fig.savefig(target, pil_kwargs={'compress_type': 3})", False),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_file_is_matplotlibs_but_for_the_compression(runs, way):
    save, is_ours = WAYS[way]
    done = runs(
        PLOT + f"def save(fig, target):\n    {save}\n"
        "fig = draw(); save(fig, 'file.png'); stream = io.BytesIO(); save(fig, stream)\n"
        "plt.close(); fig = draw()\n"
        "import PIL.ImageFile, matplotlib.backends.backend_agg as agg\n"
        "agg.FigureCanvasAgg.print_png = agg.FigureCanvasAgg.print_png.__wrapped__\n"
        "save(fig, 'usual.png'); plt.close()\n"
        "open('stream.png', 'wb').write(stream.getvalue())\n"
        "shapes = [plt.imread(f'{n}.png').shape[2] for n in ('file', 'stream', 'usual')]\n"
        "a, b, c = (np.asarray(Image.open(f'{n}.png')) for n in ('file', 'stream', 'usual'))\n"
        "infos = [Image.open(f'{n}.png').info for n in ('file', 'usual')]\n"
        "result = [shapes, (a == c).all(), (b == c).all(), infos[0] == infos[1], a.std() > 1]"
    )
    assert done.status()["status"] == "ok", done.stderr
    assert done.value() == [[4, 4, 4], True, True, True, True]
    ours, usual = (
        chunks((runs.workspace / f"{name}.png").read_bytes()) for name in ("file", "usual")
    )
    assert [one for one in ours if one[0] != b"IDAT"] == [one for one in usual if one[0] != b"IDAT"]
    assert (ours == usual) is not is_ours


def test_pictures_that_pillow_makes_are_its_own(runs):
    done = runs(
        PLOT + "array = np.arange(4 * 30 * 30, dtype=np.uint8).reshape(30, 30, 4)\n"
        "plt.imsave('a.png', array); Image.fromarray(array).save('b.png')\n"
        "draw(); plt.savefig('plot.png'); plt.close()\n"
        "plt.imsave('c.png', array)\n"
        "result = open('a.png', 'rb').read() == open('c.png', 'rb').read()"
    )
    assert done.value() is True
    (kind, data) = chunks((runs.workspace / "b.png").read_bytes())[1]
    assert kind == b"IDAT"
    filters = set(zlib.decompress(data)[:: 4 * 30 + 1])
    assert filters != {0}


def test_large_pictures_are_compressed_in_parts(runs):
    done = runs(
        PLOT
        + "plt.figure(figsize=(15, 11)).add_axes((0, 0, 1, 1)).imshow(np.random.rand(99, 99))\n"
        "plt.savefig('a.png'); usual = np.asarray(plt.gcf().canvas.buffer_rgba())\n"
        "result = [(np.asarray(Image.open('a.png')) == usual).all(), usual.shape]"
    )
    assert done.value() == [True, [1100, 1500, 4]]


def test_a_picture_that_cannot_be_written_leaves_no_file(runs):
    done = runs(
        PLOT + "draw()\n"
        "for target in ('none/x.png', 'plain'):\n"
        "    try:\n"
        "        plt.savefig(target, **({} if '/' in target else {'metadata': {1: 'x'}}))\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__)\n"
        "result = os.listdir('.')\nplt.close()"
    )
    assert done.stdout.split()[0] == "FileNotFoundError"
    assert len(done.stdout.split()) == 2
    assert done.value() == []


def test_what_is_drawn_after_saving_is_there_for_who_looks(runs):
    done = runs(
        PLOT + "fig = plt.figure(figsize=(2, 1)); plt.plot([1, 2]); fig.canvas.draw()\n"
        "before = np.asarray(fig.canvas.buffer_rgba()).copy()\n"
        "looks = {\n"
        "    'buffer': lambda: np.asarray(fig.canvas.buffer_rgba()),\n"
        "    'bytes': lambda: np.roll(np.frombuffer(fig.canvas.tostring_argb(), np.uint8)\n"
        "                             .reshape(before.shape), -1, axis=2),\n"
        "    'renderer': lambda: np.asarray(fig.canvas.get_renderer().buffer_rgba()),\n"
        "    'region': lambda: fig.canvas.copy_from_bbox(fig.bbox) and before,\n"
        "    'drawn': lambda: fig.canvas.draw() or np.asarray(fig.canvas.buffer_rgba()),\n"
        "}\n"
        "result = []\n"
        "for name, look in looks.items():\n"
        "    plt.savefig('x.png', dpi=30, transparent=True, facecolor='red')\n"
        "    result.append([name, (look() == before).all()])"
    )
    assert done.status()["status"] == "ok", done.stderr
    assert [one for one in done.value() if not one[1]] == []


def test_one_drawing_unless_more_may_come_of_it(runs):
    done = runs(
        PLOT + "class Counted(matplotlib.lines.Line2D):\n"
        "    drawn = 0\n"
        "    def draw(self, renderer):\n"
        "        Counted.drawn += 1\n"
        "        super().draw(renderer)\n"
        "def drawn(prepare, **options):\n"
        "    fig = plt.figure(); fig.add_artist(Counted([0, 1], [0, 1])); prepare(fig)\n"
        "    Counted.drawn = 0; plt.savefig(io.BytesIO(), **options)\n"
        "    if options.get('format') != 'svg': fig.canvas.buffer_rgba; \n"
        "    plt.close(); return Counted.drawn\n"
        "result = [drawn(lambda fig: None),\n"
        "          drawn(lambda fig: None, dpi=200),\n"
        "          drawn(lambda fig: fig.canvas.mpl_connect('draw_event', print)),\n"
        "          drawn(lambda fig: fig.set_layout_engine('tight')),\n"
        "          drawn(lambda fig: fig.set_layout_engine('tight'), dpi=200)]"
    )
    assert done.status()["status"] == "ok", done.stderr
    plain, resolution, watched, tight, arranged = done.value()
    assert plain == resolution == 1
    assert watched == 2
    assert arranged == tight + 1


def test_a_layout_that_is_done_needs_no_drawing_after_saving(runs):
    done = runs(
        PLOT + "def draws(prepare):\n"
        "    fig = draw(); prepare(fig); drawn = []\n"
        "    fig.canvas.draw_idle = lambda: drawn.append(1)\n"
        "    plt.savefig('x.png', dpi=200); plt.close(); return len(drawn)\n"
        "result = [draws(lambda fig: fig.tight_layout()),\n"
        "          draws(lambda fig: fig.set_layout_engine('tight'))]"
    )
    assert done.value() == [0, 1]


# How the code goes on after `fig.savefig('a.png')`, and whether the capture is the file.
ENDS = {
    "nothing": ("fig.savefig('a.png')", True),
    "shown": ("fig.savefig('a.png')\nname = 'x'\nprint(f'{name}')\nplt.show()", True),
    "resolution": ("fig.savefig('a.png', dpi=50)\nplt.show()", False),
    "tight": ("fig.savefig('a.png', bbox_inches='tight')", False),
    "label": (
        "label = fig.axes[0].get_xticklabels()[1]\nfig.savefig('a.png')\nlabel.set_color('red')",
        False,
    ),
    "setting": (
        "with plt.rc_context({'savefig.facecolor': 'red'}): fig.savefig('a.png')",
        False,
    ),
    "overwritten": ("fig.savefig('a.png')\nopen('a.png', 'w').write('x')", False),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_capture_shows_the_figure_as_it_is(runs, end):
    code, is_same = ENDS[end]
    done = runs(PLOT + "fig = draw()\n" + code)
    assert done.status()["status"] == "ok", done.stderr
    saved = (runs.workspace / "a.png").read_bytes()
    captured = (runs.workspace / "plots/plot_1.png").read_bytes()
    assert (saved == captured) == is_same
    assert chunks(captured)
