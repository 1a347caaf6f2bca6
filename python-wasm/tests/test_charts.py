"""The data of figures as charts."""

PLOT = "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"
FORM = "application/vnd.belljar.chart+json"


def charts(runs, code):
    figures = {"capture": False, "format": "png", "dpi": None, "max": 20, "charts": True}
    done = runs(PLOT + code, displays=True, figures=figures)
    assert done.status()["status"] == "ok", done.stderr
    assert done.of("w") == []
    return [one["data"].get(FORM) for one in done.of("o")]


def test_they_come_only_where_they_are_asked_for(runs):
    done = runs(PLOT + "plt.plot([1, 2])", displays=True)
    assert set(done.of("o")[0]["data"]) == {"text/plain", "image/png"}


def test_lines(runs):
    (chart,) = charts(
        runs,
        "plt.plot([1, 2, 3], [1, 4, 9], label='squares')\nplt.plot([1, 2], [3, 3])\n"
        "plt.xlabel('Time (s)')\nplt.ylabel('Value [m]')\nplt.title('T')\nplt.yscale('log')",
    )
    assert (chart["type"], chart["title"]) == ("line", "T")
    assert (chart["x_label"], chart["x_unit"]) == ("Time (s)", "s")
    assert (chart["y_label"], chart["y_unit"]) == ("Value [m]", "m")
    assert (chart["x_scale"], chart["y_scale"]) == ("linear", "log")
    assert chart["elements"] == [
        {"label": "squares", "points": [[1.0, 1.0], [2.0, 4.0], [3.0, 9.0]]},
        {"label": "Line 1", "points": [[1.0, 3.0], [2.0, 3.0]]},
    ]
    assert len(chart["x_ticks"]) == len(chart["x_tick_labels"]) > 2


def test_dates_and_names_on_axes(runs):
    dates, names = charts(
        runs,
        "import datetime\nd = [datetime.date(2024, 1, n) for n in (1, 2)]\nplt.plot(d, [1, 2])\n"
        "plt.show()\nplt.plot(['a', 'b'], [1, 2])",
    )
    assert dates["x_scale"] == "datetime"
    assert dates["elements"][0]["points"][0] == ["2024-01-01T00:00:00", 1.0]
    assert names["x_scale"] == "categorical"
    assert names["elements"][0]["points"] == [["a", 1.0], ["b", 2.0]]
    assert names["x_tick_labels"] == ["a", "b"]


def test_points(runs):
    (chart,) = charts(runs, "plt.scatter([1, 2], [3, 4], label='p')\nplt.scatter([5], [6])")
    assert chart["type"] == "scatter"
    assert chart["elements"] == [
        {"label": "p", "points": [[1.0, 3.0], [2.0, 4.0]]},
        {"label": "Points 1", "points": [[5.0, 6.0]]},
    ]


def test_bars_upright_and_lying(runs):
    upright, lying = charts(
        runs,
        "plt.bar(['a', 'b'], [1, 2], label='one')\nplt.show()\nplt.barh(['c', 'd'], [3, 4])",
    )
    assert upright["type"] == lying["type"] == "bar"
    assert upright["elements"] == [
        {"label": "a", "group": "one", "value": 1.0},
        {"label": "b", "group": "one", "value": 2.0},
    ]
    assert [(one["label"], one["value"]) for one in lying["elements"]] == [("c", 3.0), ("d", 4.0)]


def test_pies(runs):
    (chart,) = charts(runs, "plt.pie([1, 3], labels=['a', 'b'])")
    assert chart["type"] == "pie"
    found = [(one["label"], round(one["angle"]), one["radius"]) for one in chart["elements"]]
    assert found == [("a", 90, 1.0), ("b", 270, 1.0)]


def test_boxes_as_lines_and_as_patches(runs):
    data = "[[1, 2, 3, 4, 5, 50], [2, 3, 4, 5, 6]]"
    for options in ("", ", patch_artist=True", ", orientation='horizontal'"):
        (chart,) = charts(runs, f"plt.boxplot({data}, tick_labels=['a', 'b']{options})")
        assert chart["type"] == "box_and_whisker", options
        first, second = chart["elements"]
        assert first == {
            "label": "a",
            "min": 1.0,
            "first_quartile": 2.25,
            "median": 3.5,
            "third_quartile": 4.75,
            "max": 5.0,
            "outliers": [50.0],
        }, options
        assert (second["label"], second["median"], second["outliers"]) == ("b", 4.0, []), options


def test_several_axes_make_one_chart_of_charts(runs):
    (chart,) = charts(
        runs,
        "f, (a, b, c) = plt.subplots(1, 3)\na.plot([1, 2])\nb.bar(['x'], [1])\nf.suptitle('S')",
    )
    assert (chart["type"], chart["title"]) == ("superchart", "S")
    assert [one["type"] for one in chart["elements"]] == ["line", "bar"]


def test_what_is_no_such_chart(runs):
    blank, picture = charts(runs, "plt.figure()\nplt.show()\nplt.imshow([[1, 2], [3, 4]])")
    assert blank == {}
    assert (picture["type"], picture["elements"]) == ("unknown", [])


def test_a_chart_that_cannot_be_read_costs_only_itself(runs):
    figures = {"capture": False, "format": "png", "dpi": None, "max": 20, "charts": True}
    code = "class L(str): pass\nf, a = plt.subplots()\na.plot([1])\na.get_xlabel = lambda: 1 / 0"
    done = runs(PLOT + code, displays=True, figures=figures)
    assert set(done.of("o")[0]["data"]) == {"text/plain", "image/png"}
    assert "ZeroDivisionError" in done.of("w")[0]["message"]


def test_frames_and_containers_come_as_data_too(runs):
    code = (
        "import pandas as pd\n"
        "display(pd.DataFrame({'a': [1, 2], 'b': pd.to_datetime(['2024-01-01', '2024-01-02'])}))\n"
        "display({'x': [1, (2,)]}); display([1, 'a'])\n"
        "display(1); display({1}, include=['text/plain'])"
    )
    figures = {"capture": False, "format": "png", "dpi": None, "max": 20, "charts": True}
    done = runs(code, displays=True, figures=figures)
    assert done.status()["status"] == "ok", done.stderr
    frame, mapping, sequence, number, group = [one["data"] for one in done.of("o")]
    columns = frame["application/vnd.belljar.columns+json"]
    assert columns["a"] == [1, 2]
    assert [text[:10] for text in columns["b"]] == ["2024-01-01", "2024-01-02"]
    assert mapping["application/json"] == {"x": [1, [2]]}
    assert sequence["application/json"] == [1, "a"]
    assert set(number) == set(group) == {"text/plain"}


def test_a_frame_that_lies_costs_only_its_data(runs):
    code = (
        "import pandas as pd\nclass F(pd.DataFrame):\n    def items(self): raise ValueError('no')\n"
        "    def __len__(self): return -1\ndisplay(F({'a': [1]}))"
    )
    figures = {"capture": False, "format": "png", "dpi": None, "max": 20, "charts": True}
    done = runs(code, displays=True, figures=figures)
    (data,) = [one["data"] for one in done.of("o")]
    assert "application/vnd.belljar.columns+json" not in data
