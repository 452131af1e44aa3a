"""The HTML of all reports: the page, one self-contained file, its figures, and its tables of rows."""

from __future__ import annotations

import base64
import math
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from bot_orch._version import __version__
from bot_orch.lab.harness.tables import ResultRow, TableView, agreement_words

_LIBRARIES = {"numpy": "NumPy", "scipy": "SciPy", "matplotlib": "matplotlib"}


def machine_facts() -> dict[str, str]:
    """Processors, system, Python and the libraries that decide about numbers and figures."""
    found = [f"BOT-Orch {__version__}", f"Python {platform.python_version()}"]
    found += [f"{told} {number}" for name, told in _LIBRARIES.items() if (number := _version(name))]
    processors = os.cpu_count() or 1
    told = f"{processors} processor{'s' if processors > 1 else ''}, {platform.machine()}, {sys.platform}"
    return {"Machine": told, "Versions": ", ".join(found), "Figures": "each as PNG and SVG in the folder figures/"}


def run_time(seconds: float, *, units: int, earlier: int = 0, processes: int = 1) -> str:
    """Wall-clock time of a run, and how much of the work an interrupted run had done before.

    Examples
    --------
    >>> run_time(93.2, units=10, earlier=4, processes=2)
    '1 min 33 s for 6 of 10 units of work in 2 processes; an earlier run had done the others'
    """
    minutes, rest = divmod(round(seconds), 60)
    told = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    share = f"{units - earlier} of {units} units" if earlier else f"{units} units"
    where = f"{processes} processes" if processes > 1 else "one process"
    return f"{told} for {share} of work in {where}" + ("; an earlier run had done the others" if earlier else "")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


#: Pixels of the page per pixel of a figure: letters in all figures then have one size, and the figures fit the page.
_SHOWN_AT = 0.62


@dataclass(frozen=True, slots=True)
class Chapter:
    """An entry of the navigation: its target, and its sections as (id, title)."""

    id: str
    title: str
    sections: Sequence[tuple[str, str]] = ()


def html_page(title: str, body: str, chapters: Sequence[Chapter] = ()) -> bytes:
    """The whole page; ``body`` is HTML. Printing opens every fold, and so does a link to something inside it."""
    here = files("bot_orch.lab.harness")
    style, script = (here.joinpath(name).read_text() for name in ("report.css", "report.js"))
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body>{_navigation(chapters)}<main>{body}</main><script>{script}</script></body></html>\n"
    )
    return page.encode()


def figure_html(name: str, caption: str, paths: tuple[Path, Path]) -> str:
    """A figure from its PNG, in a box that scrolls on a narrow screen, with its caption.

    The caption's tooltip names the SVG.
    """
    alt, words = escape(caption), escape(caption, quote=False)
    png = paths[0].read_bytes()
    data = base64.b64encode(png).decode("ascii")
    width, height = (round(int.from_bytes(png[at : at + 4], "big") * _SHOWN_AT) for at in (16, 20))
    return (
        f'<figure id="figure-{escape(name)}"><div class=scroll><img alt="{alt}" '
        f'width={width} height={height} src="data:image/png;base64,{data}"></div>'
        f'<figcaption title="figures/{escape(paths[1].name)}">'
        f"{words}</figcaption></figure>"
    )


def fold(summary: str, content: str, hint: str = "", *, ident: str = "") -> str:
    """A collapsible element; ``hint`` describes its content on the same line, ``ident`` makes it a link target."""
    named = f' id="{escape(ident)}"' if ident else ""
    told = f" <small>{hint}</small>" if hint else ""
    return f"<details{named}><summary>{summary}{told}</summary>{content}</details>"


def scroll_box(table: str) -> str:
    """Wrap a wide table in a horizontally scrolling box."""
    return f"<div class=scroll>{table}</div>"


def facts_table(facts: Mapping[str, str]) -> str:
    """A collapsed table of how a page was made."""
    items = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts.items())
    return fold("How this page was made", scroll_box(f"<table class=facts>{items}</table>"))


def _navigation(chapters: Sequence[Chapter]) -> str:
    parts = []
    for chapter in chapters:
        inner = "".join(f'<li><a href="#{escape(i)}">{escape(t)}</a></li>' for i, t in chapter.sections)
        listed = f"<ol>{inner}</ol>" if inner else ""
        parts.append(f'<li><a href="#{escape(chapter.id)}">{escape(chapter.title)}</a>{listed}</li>')
    return f'<nav aria-label="Contents"><ol>{"".join(parts)}</ol></nav>' if parts else ""


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
