"""Tables of the report: rows laid out in lines and columns, each cell next to the published number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape

from bot_orch.lab.harness.frame import scroll_box
from bot_orch.lab.harness.tables import ResultRow, TableView, agreement_words

#: What a row of metric ``verdict`` says, in words and as a shade.
VERDICTS = {
    1.0: ("holds", "holds"),
    0.5: ("holds with a correction", "mended"),
    0.0: ("fails as stated", "fails"),
}


@dataclass(frozen=True, slots=True)
class Laid:
    """A table as HTML, with and without its count of matched numbers, and the criteria for folding it."""

    title: str
    protocol: str
    html: str
    counted: str
    _: KW_ONLY
    lines: int
    cells: int
    published: bool


def lay_out(view: TableView, rows: Sequence[ResultRow]) -> Laid:
    """The table of a view."""
    chosen = [r for r in rows if r.metric == view.metric and r.protocol == view.protocol]
    if view.experiment is not None:
        chosen = [r for r in chosen if r.experiment == view.experiment]
    across = list(view.columns) or _unique(_field(row, view.across) for row in chosen)
    down = list(view.lines) or _unique(_field(row, view.down) for row in chosen if _field(row, view.across) in across)
    cells = {(_field(row, view.down), _field(row, view.across)): row for row in chosen}
    turned = len(across) > len(down) + 1
    if turned:  # a narrow table fits next to another one
        down, across = across, down
    head = "".join(f"<th>{escape(name)}</th>" for name in across)
    lines = []
    for name in down:
        keys = [(column, name) if turned else (name, column) for column in across]
        line = "".join(_cell(cells.get(key), view.digits) for key in keys)
        lines.append(f"<tr><th>{escape(name)}</th>{line}</tr>")
    note = f"<p class=note>{view.note}</p>" if view.note else ""
    corner = escape(view.across if turned else view.down)
    table = f"<table><tr><th>{corner}</th>{head}</tr>{''.join(lines)}</table>"
    shown = {(name, column) for name in down for column in across}
    seen = [row for key, row in cells.items() if (key[::-1] if turned else key) in shown]
    published = any(row.paper is not None and row.basis != "elsewhere" for row in seen)
    count = "".join(f"<p class=count>{words}.</p>" for words in agreement_words(seen))
    html = f"<div><h4>{escape(view.title)}</h4>{note}{scroll_box(table)}</div>"
    counted = html.removesuffix("</div>") + f"{count}</div>"
    return Laid(view.title, view.protocol, html, counted, lines=len(down), cells=len(shown), published=published)


def _cell(row: ResultRow | None, digits: int) -> str:
    if row is None:
        return "<td></td>"
    if row.metric == "verdict":
        words, shade = VERDICTS.get(row.mean, ("mixed", "mended"))
        return f'<td class="words {shade}">{words}</td>'
    ours = _number(row.mean, row.std if row.seeds > 1 else None, digits)
    if row.range is not None:
        ours = f"{_number(row.mean, None, digits)} [{', '.join(_number(v, None, digits) for v in row.range)}]"
    if row.paper is None:
        return f"<td>{ours}</td>"
    shade = ("in" if row.inside else "out") + ("" if row.basis == "prediction" else f" {row.basis}")
    if row.basis == "elsewhere":
        shade = row.basis
    if row.z is not None:
        ours = f"<small>z {row.z:+.1f}</small> {ours}"
    if row.basis in ("fitted", "selected", "contradicted"):
        ours += f' <abbr title="{row.basis}">{row.basis[0]}</abbr>'
    theirs = _number(row.paper.mean, row.paper.spread, digits)
    if row.predicted is not None and row.basis != "elsewhere":
        theirs += f"<br>[{', '.join(_number(end, None, digits) for end in row.predicted)}]"
    return f'<td class="{shade}">{ours}<br><small>paper {theirs}</small></td>'


def _number(mean: float, spread: float | None, digits: int) -> str:
    """A mean with its spread; a value that does not exist is a dash, and zero has no sign."""
    if not math.isfinite(mean):
        return "—"
    told = f"{round(mean, digits) + 0.0:.{digits}f}"
    return told if spread is None or not math.isfinite(spread) else f"{told} ± {spread:.{digits}f}"


def _field(row: ResultRow, name: str) -> str:
    return f"{row.lambda_:g}" if name == "lambda" else str(getattr(row, name))


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
