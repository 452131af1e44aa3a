"""The HTML frame of all reports: one self-contained file."""

from __future__ import annotations

import base64
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from bot_orch._version import __version__

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
