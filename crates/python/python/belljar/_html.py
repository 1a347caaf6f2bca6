"""Runs and outcomes as HTML for notebooks. The contents are untrusted: text is escaped, and
pictures are shown only in ``img`` elements, where scripts do not run.
"""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING, Any

from ._outcome import Outcome
from ._run import Run

if TYPE_CHECKING:
    from ._notebook import Shown
    from ._outcome import Table

_MAX_TEXT = 20_000
_MAX_ROWS = 50
_MAX_COLUMNS = 50
_MAX_PICTURE = 8 << 20
_MAX_PICTURES = 20

_PRE = "margin:0.3em 0;white-space:pre-wrap;overflow-wrap:anywhere"
_RED = f"{_PRE};border-left:3px solid #c33;padding-left:0.6em"
_SMALL = "opacity:0.7;font-size:85%"


def page(held: Shown) -> str:
    """Renders a run with its figures, or an outcome with its inline figures."""
    if isinstance(held, Run):
        return _run(held)
    if isinstance(held, Outcome):
        return _page(held, lambda path: None)
    raise TypeError(f"a {type(held).__name__} has no page")


def _run(held: Run) -> str:

    def picture(path: str) -> bytes | None:
        try:
            return held[path]
        except Exception:
            # The files of a run may be gone, those of a session may have changed.
            return None

    return _page(held.outcome, picture)


def _page(held: Outcome, picture: Any) -> str:
    parts = []
    if held.stdout:
        parts.append(_text(held.stdout, _PRE))
    if held.error is not None:
        traceback = held.error.traceback or held.error.text
        parts.append(_text(traceback, _RED))
        if held.error.hint:
            parts.append(f"<div>{_escaped(held.error.hint)}</div>")
    elif held.stderr:
        parts.append(_text(held.stderr, _RED))
    shown = {entry.name for entry in held.dataframes if entry.table is not None}
    if held.result is not None:
        parts.append(_value(held.result))
    for entry in held.dataframes:
        title = f"<div><code>{_escaped(entry.name)}</code></div>"
        if entry.name in shown and entry.table is not None:
            parts.append(title + _table(entry.table))
        elif not _is_table(held.result):
            parts.append(title + _text(entry.repr, _PRE))
    for plot in held.plots[:_MAX_PICTURES]:
        parts.append(_figure(plot.path, _source(plot, picture)))
    parts.append(_last_line(held))
    return "<div>" + "".join(parts) + "</div>"


def _escaped(text: Any) -> str:
    return escape(str(text), quote=True)


def _text(text: str, style: str) -> str:
    if len(text) > _MAX_TEXT:
        text = text[:_MAX_TEXT] + f"\n… ({len(text) - _MAX_TEXT} more characters)"
    return f'<pre style="{style}">{_escaped(text)}</pre>'


def _is_table(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "iloc")


def _value(value: Any) -> str:
    if _is_table(value):
        return _rows(value)
    return _text(repr(value), _PRE)


def _rows(value: Any) -> str:
    """Renders a DataFrame or a Series, without pandas, which might be set not to escape."""
    frame = value.to_frame() if not hasattr(value, "columns") else value
    frame = frame.iloc[:_MAX_ROWS, :_MAX_COLUMNS]
    head = "".join(f"<th>{_escaped(name)}</th>" for name in ["", *frame.columns.tolist()])
    lines = []
    columns = [frame.iloc[:, at].tolist() for at in range(frame.shape[1])]
    for at, label in enumerate(frame.index.tolist()):
        cells = "".join(f"<td>{_cell(column[at])}</td>" for column in columns)
        lines.append(f"<tr><th>{_escaped(label)}</th>{cells}</tr>")
    size = " × ".join(str(count) for count in value.shape)
    return _html_table(head, lines) + f'<div style="{_SMALL}">{size}</div>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{_escaped(name)}</th>" for name in ["", *table.columns[:_MAX_COLUMNS]])
    lines = []
    for label, row in list(zip(table.index, table.rows, strict=False))[:_MAX_ROWS]:
        cells = "".join(f"<td>{_cell(cell)}</td>" for cell in row[:_MAX_COLUMNS])
        lines.append(f"<tr><th>{_escaped(label)}</th>{cells}</tr>")
    size = " × ".join(str(count) for count in table.shape)
    return _html_table(head, lines) + f'<div style="{_SMALL}">{size}</div>'


def _html_table(head: str, lines: list[str]) -> str:
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _cell(value: Any) -> str:
    text = str(value)
    return _escaped(text if len(text) <= 200 else text[:200] + "…")


def _source(plot: Any, picture: Any) -> str | None:
    """A URI of the figure, if browsers show its type without running scripts."""
    data: bytes | None
    if plot.base64_uri:
        try:
            data = base64.b64decode(plot.base64_uri.partition(",")[2], validate=True)
        except ValueError:
            return None
    else:
        data = picture(plot.path) if plot.size <= _MAX_PICTURE else None
    if data is None:
        return None
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        kind = "image/png"
    elif data.startswith((b"<?xml", b"<svg")) and plot.path.endswith(".svg"):
        # In an `img`, scripts do not run and nothing is loaded.
        kind = "image/svg+xml"
    else:
        return None
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _figure(path: str, source: str | None) -> str:
    if source is None:
        return f'<div style="{_SMALL}">{_escaped(path)}</div>'
    return f'<img alt="{_escaped(path)}" src="{source}" style="max-width:100%">'


def _last_line(held: Outcome) -> str:
    parts = [f"{held.usage.wall_ms:.1f} ms"]
    plots = {plot.path for plot in held.plots}
    parts += [f"{file.path} ({file.size} B)" for file in held.files[:10] if file.path not in plots]
    return f'<div style="{_SMALL}">{_escaped(" · ".join(parts))}</div>'
