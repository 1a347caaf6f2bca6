"""The data of a matplotlib figure: lines, points, bars, wedges and boxes of its axes.

The format is that of E2B's interpreter. Other charts, or several kinds on the same axes, have the
type `unknown`, without elements.
"""

import re
import sys

from _belljar.protocol import guard
from _belljar.protocol.inspecting import is_kind
from _belljar.values import values

FORM = "application/vnd.belljar.chart+json"
_POINTS = 10_000  # of one element; more are left out
_BYTES = 4 * 1024 * 1024
_UNIT = re.compile(r"[(\[]([^()\[\]]+)[)\]]\s*$")
_CHILD = re.compile(r"_child(\d+)")
_modules = sys.modules


def of(figure):
    """The chart of a figure, or None if it has no chart."""
    charts = [_chart(axes) for axes in figure.get_axes() if axes.has_data()]
    if not charts:
        return {}
    if len(charts) == 1:
        chart = charts[0]
    else:
        title = figure.get_suptitle() if hasattr(figure, "get_suptitle") else ""
        chart = {"type": "superchart", "title": title or None, "elements": charts}
    limits = values.Limits(16, 10 * _POINTS, _BYTES)
    plain, cut = values.convert(chart, limits)
    if cut:
        guard.note("A chart's data is left out: there is too much of it")
        return None
    return plain


def _chart(axes):
    for look in (_pie, _bars, _boxes, _scatter, _lines):
        found = look(axes)
        if found is not None:
            return found
    return {"type": "unknown", "title": axes.get_title() or None, "elements": []}


def _plane(axes, kind, elements):
    chart = {"type": kind, "title": axes.get_title() or None}
    for name, label in (("x", axes.get_xlabel()), ("y", axes.get_ylabel())):
        unit = _UNIT.search(label)
        chart[f"{name}_label"] = label or None
        chart[f"{name}_unit"] = unit.group(1) if unit else None
    chart["elements"] = elements
    return chart


def _with_scales(axes, chart):
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        scale = _scale(axis)
        low, high = sorted(axis.get_view_interval())
        shown = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        places = [tick.get_loc() for tick in shown]
        chart[f"{name}_ticks"] = [_place(one, scale) for one in places]
        chart[f"{name}_tick_labels"] = [tick.label1.get_text() for tick in shown]
        chart[f"{name}_scale"] = scale
    return chart


def _scale(axis):
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    name = type(converter).__name__
    if "Category" in name:
        return "categorical"
    if "Date" in name or "Date" in type(axis.get_major_formatter()).__name__:
        return "datetime"
    return axis.get_scale()


def _place(value, scale):
    """A coordinate: a date as ISO 8601, a number as a number."""
    if scale != "datetime":
        return float(value)
    return _modules["matplotlib.dates"].num2date(value).replace(tzinfo=None).isoformat()


def _points(axes, pairs):
    scales = _scale(axes.xaxis), _scale(axes.yaxis)
    names = [_categories(axis) for axis in (axes.xaxis, axes.yaxis)]
    return [
        [_named(one, scale, known) for one, scale, known in zip(pair, scales, names, strict=True)]
        for pair in pairs[:_POINTS]
    ]


def _categories(axis):
    """The names of a categorical axis, by their number."""
    mapping = getattr(getattr(axis, "units", None), "_mapping", None)
    return {number: name for name, number in mapping.items()} if mapping else {}


def _named(value, scale, names):
    if scale == "categorical" and value in names:
        return names[value]
    return _place(value, scale)


def _label(artist):
    label = str(artist.get_label())
    child = _CHILD.fullmatch(label)
    return f"Line {child.group(1)}" if child else label


def _lines(axes):
    lines = axes.get_lines()
    if not lines or axes.collections or axes.containers:
        return None
    elements = [
        {"label": _label(line), "points": _points(axes, _pairs(line.get_xydata()))}
        for line in lines
    ]
    return _with_scales(axes, _plane(axes, "line", elements))


def _scatter(axes):
    found = _modules["matplotlib.collections"].PathCollection
    groups = [one for one in axes.collections if is_kind(one, found)]
    if not groups or axes.get_lines() or axes.containers:
        return None
    elements = [
        {"label": _label(one), "points": _points(axes, _pairs(one.get_offsets()))} for one in groups
    ]
    for number, element in enumerate(elements):
        if element["label"].startswith("Line "):
            element["label"] = f"Points {number}"
    return _with_scales(axes, _plane(axes, "scatter", elements))


def _pairs(rows):
    return [(float(x), float(y)) for x, y in rows]


def _bars(axes):
    found = _modules["matplotlib.container"].BarContainer
    groups = [one for one in axes.containers if is_kind(one, found)]
    if not groups:
        return None
    elements = []
    flat = all(getattr(one, "orientation", None) == "horizontal" for one in groups)
    names = _tick_names(axes.yaxis if flat else axes.xaxis)
    for number, group in enumerate(groups):
        label = str(group.get_label() or "")
        label = f"Group {number}" if not label or label.startswith("_") else label
        for bar in group.patches[:_POINTS]:
            x, y = bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2
            place, value = (y, bar.get_width()) if flat else (x, bar.get_height())
            name = _nearest(names, place)
            elements.append({"label": name, "group": label, "value": float(value)})
    return _plane(axes, "bar", elements)


def _tick_names(axis):
    names = {float(tick.get_loc()): tick.label1.get_text() for tick in axis.get_major_ticks()}
    return {place: name for place, name in names.items() if name}


def _nearest(names, place):
    """The tick label of a bar or a box, or its position."""
    near = min(names, key=lambda one: abs(one - place), default=None)
    if near is not None and abs(near - place) < 0.5:
        return names[near]
    return f"{place:g}"


def _pie(axes):
    found = _modules["matplotlib.patches"].Wedge
    wedges = [one for one in axes.patches if is_kind(one, found)]
    if not wedges or len(wedges) != len(axes.patches):
        return None
    elements = []
    texts = [text.get_text() for text in axes.texts]
    for number, wedge in enumerate(wedges[:_POINTS]):
        label = str(wedge.get_label())
        if label.startswith("_"):
            label = texts[number] if number < len(texts) else ""
        angle = abs(float(wedge.theta2) - float(wedge.theta1))
        elements.append({"label": label, "angle": angle, "radius": float(wedge.r)})
    return {"type": "pie", "title": axes.get_title() or None, "elements": elements}


def _boxes(axes):
    """Boxes are drawn as closed lines or as patches; their other parts are at the same position."""
    patch = _modules["matplotlib.patches"].PathPatch
    corners = [one.get_path().vertices for one in axes.patches if is_kind(one, patch)]
    lines = [line.get_xydata() for line in axes.get_lines()]
    if not corners:
        corners = [line for line in lines if len(line) == 5 and tuple(line[0]) == tuple(line[-1])]
        lines = [line for line in lines if len(line) != 5 or tuple(line[0]) != tuple(line[-1])]
    if not corners or not lines or axes.collections:
        return None
    flat = _is_flat(corners, lines)
    names = _tick_names(axes.yaxis if flat else axes.xaxis)
    across, along = (1, 0) if flat else (0, 1)
    elements = []
    for corner in corners[:_POINTS]:
        sides = [float(point[across]) for point in corner]
        ends = [float(point[along]) for point in corner]
        left, right, first, third = min(sides), max(sides), min(ends), max(ends)
        middle = (left + right) / 2
        element = {
            "label": _nearest(names, middle),
            "min": first,
            "first_quartile": first,
            "median": None,
            "third_quartile": third,
            "max": third,
            "outliers": [],
        }
        for line in lines:
            places = [float(point[across]) for point in line]
            if not places or not left - 1e-9 <= min(places) or not max(places) <= right + 1e-9:
                continue
            _add_to_box(element, places, [float(point[along]) for point in line], (left, right))
        elements.append(element)
    return _plane(axes, "box_and_whisker", elements)


def _add_to_box(element, places, heights, sides):
    """The part of a box that a line shows: the median, a whisker with its cap, outliers."""
    low, high = element["first_quartile"], element["third_quartile"]
    is_level = len(heights) == 2 and heights[0] == heights[1]
    if is_level and low <= heights[0] <= high and (places[0], places[1]) == sides:
        element["median"] = heights[0]
    elif len(heights) == 2 and (is_level or places[0] == places[1]):
        element["min"] = min(element["min"], *heights)
        element["max"] = max(element["max"], *heights)
    else:
        element["outliers"] += heights[:_POINTS]


def _is_flat(corners, lines):
    """Whether the boxes are horizontal: then all whiskers are."""
    for corner in corners:
        sides = [float(point[0]) for point in corner]
        ends = [float(point[1]) for point in corner]
        middle = (min(sides) + max(sides)) / 2
        for line in lines:
            if len(line) == 2 and all(abs(point[0] - middle) < 1e-9 for point in line):
                heights = [float(point[1]) for point in line]
                if min(heights) < min(ends) or max(heights) > max(ends):
                    return False
    return True
