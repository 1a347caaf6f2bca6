"""The stand-in for `IPython`: importable, with the names that models use, and unobtrusive."""

import base64

PNG = "b'\\x89PNG\\r\\n\\x1a\\nrest'"


def forms(done):
    assert done.status()["status"] == "ok", done.stderr
    return [(one["data"], one["metadata"]) for one in done.of("o")]


def test_nothing_of_it_is_there_before_it_is_imported(runs):
    done = runs(
        "import sys\nbefore = [n for n in sys.modules if n.startswith('IPython')]\n"
        "import IPython\nfrom IPython import get_ipython, display as d\n"
        "from IPython.core.display import display, HTML\nimport IPython.display\n"
        "result = [before, IPython.get_ipython(), get_ipython(), callable(d.display)]"
    )
    assert done.value() == [[], None, None, True]


def test_a_module_of_the_codes_own_goes_first(runs):
    (runs.workspace / "IPython.py").write_text("mine = 7")
    assert runs("import IPython\nresult = IPython.mine").value() == 7


def test_objects_come_in_their_form(runs):
    done = runs(
        "from IPython.display import *\n"
        "display(HTML('<b>1</b>'), Markdown('*a*'), Latex('$x$'), Math('x^2'), SVG('<svg/>'))\n"
        "display(JSON({'a': [1]}), Javascript('f()'), Pretty('p'), Code('a < b'))\n"
        f"display(Image({PNG}, width=3))\n"
        "display_html('<i>2</i>')",
        displays=True,
    )
    found = forms(done)
    names = [[name for name in data if name != "text/plain"] for data, _ in found]
    assert names == [
        ["text/html"],
        ["text/markdown"],
        ["text/latex"],
        ["text/latex"],
        ["image/svg+xml"],
        ["application/json"],
        ["application/javascript"],
        [],
        ["text/html"],
        ["image/png"],
        ["text/html"],
    ]
    assert found[0][0]["text/plain"] == "<IPython.core.display.HTML object>"
    assert found[3][0]["text/latex"] == "$\\displaystyle x^2$"
    assert found[5][0]["application/json"] == {"a": [1]}
    assert found[7][0]["text/plain"] == "p"
    assert found[8][0]["text/html"] == "<pre>a &lt; b</pre>"
    png, metadata = found[9]
    assert base64.b64decode(png["image/png"]).endswith(b"rest")
    assert metadata == {"image/png": {"width": 3}}


def test_pictures_from_files_and_addresses(runs):
    done = runs(
        f"open('a.png', 'wb').write({PNG})\n"
        "from IPython.display import Image, SVG\nimport pathlib\n"
        "display(Image('a.png'), Image(pathlib.Path('a.png')), Image(filename='a.png'))\n"
        "display(Image(url='https://example.org/a\"b.png', height=2))\n"
        "open('a.svg', 'w').write('<svg/>')\ndisplay(SVG(filename='a.svg'))",
        displays=True,
    )
    *pictures, address, drawing = [data for data, _ in forms(done)]
    assert all("image/png" in data for data in pictures)
    assert address["text/html"] == '<img height="2" src="https://example.org/a&quot;b.png"/>'
    assert drawing["image/svg+xml"] == "<svg/>"


def test_a_bundle_of_the_codes_own_passes_through(runs):
    done = runs(
        "from IPython.display import display, publish_display_data, clear_output, update_display\n"
        "display({'text/plain': 'p', 'e2b/x': 'y'}, raw=True)\n"
        "publish_display_data({'text/html': 'h'}, transient={'display_id': 'a'})\n"
        "clear_output(wait=True)\nupdate_display('z', display_id='a')",
        displays=True,
    )
    frames = done.of("o")
    assert [one["kind"] for one in frames] == ["display", "display", "clear", "update"]
    assert frames[0]["data"] == {"text/plain": "p", "e2b/x": "y"}
    assert frames[1]["display_id"] == frames[3]["display_id"] == "a"


def test_without_a_reader_objects_are_printed_as_text(runs):
    done = runs(
        "from IPython.display import display, HTML, Markdown, clear_output\n"
        "display(HTML('<b>'), Markdown('# a'))\nclear_output()"
    )
    assert done.stdout == (
        "<IPython.core.display.HTML object>\n<IPython.core.display.Markdown object>\n"
    )


def test_matplotlib_and_pandas_work_beside_it(runs):
    done = runs(
        "import IPython\nimport matplotlib\nmatplotlib.use('Agg')\n"
        "import matplotlib.pyplot as plt\nplt.ion()\nplt.plot([1])\nplt.show()\n"
        "import pandas as pd\nprint(pd.DataFrame({'a': [1]}))"
    )
    assert done.status()["status"] == "ok", done.stderr
    assert done.stdout == "   a\n0  1\n"
