"""One self-contained HTML page: every figure, every table beside the paper's, how it was run.

A section shows its sentences. One that reproduces something of the paper shows its first figure too, and as many
tables with published numbers as fit into :data:`_SHOWN_CELLS` cells; everything else is one click away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape
from itertools import groupby
from pathlib import Path

from bot_orch.files import write_atomically
from bot_orch.lab.harness.counting import agreement, agreement_words
from bot_orch.lab.harness.experiment import Experiment, FigureView
from bot_orch.lab.harness.frame import Chapter, facts_table, figure_html, fold, html_page
from bot_orch.lab.harness.layout import VERDICTS, Laid, lay_out
from bot_orch.lab.harness.tables import ResultRow, TableView
from bot_orch.lab.harness.typesetting import lettered, typeset

__all__ = ["Section", "write_report"]

_TITLE = "BOT-Orch: the paper, reproduced"
_PROTOCOLS = {
    "paper": "<b>paper</b>: the policy is given what the paper gives it. In triage that is the revealed answer, which "
    "no deployed router has, and each method is scored with its own lambda, so rows are not comparable. In the "
    "synthetic tables it is the distance to the task's true reference, seen through noise, and one lambda scores all.",
    "deployable": "<b>deployable</b>: nothing about the current answer is known before the choice. "
    "All methods are scored with one common lambda.",
    "theory": "<b>theory</b>: a statement of the theorem is run; its verdict is computed from the numbers.",
}
#: Chapters in reading order, by the first word of an experiment's id; others stand under the last title.
_CHAPTERS = {
    "claims": "The paper's claims",
    "triage": "Triage",
    "synthetic": "Synthetic environments",
    "readings": "Readings",
    "theory": "The theorem",
    "": "Further studies",
}
_SHOWN_CELLS, _SHOWN_LINES = 32, 8
_SHOWN_NOTES = 3
_BEYOND = "beyond the paper"


@dataclass(frozen=True, slots=True)
class Section:
    """An experiment and everything to show of it."""

    experiment: Experiment
    rows: Sequence[ResultRow]
    tables: Sequence[TableView]
    _: KW_ONLY
    figures: Sequence[tuple[FigureView, tuple[Path, Path]]]
    notes: Sequence[str]


def write_report(out: Path, sections: Sequence[Section], facts: Mapping[str, str]) -> Path:
    """Write ``index.html`` and return its path."""
    chapters = _chapters(sections)
    entries = [Chapter("summary", "Summary")]
    parts = [_summary([section for members in chapters.values() for section in members], facts)]
    for name, members in chapters.items():
        ident = f"chapter-{name or 'more'}"
        inside = [(section.experiment.id, lettered(_short(section.experiment.title))) for section in members]
        entries.append(Chapter(ident, _CHAPTERS[name], inside))
        parts.append(f'<h2 id="{ident}">{_CHAPTERS[name]}</h2>')
        parts += [_section(section) for section in members]
    write_atomically(out / "index.html", html_page(_TITLE, "".join(parts), entries))
    return out / "index.html"


def _chapters(sections: Sequence[Section]) -> dict[str, list[Section]]:
    """Sections by chapter, in reading order; what has no chapter stands last."""
    found: dict[str, list[Section]] = {}
    for section in sections:
        first = section.experiment.id.split("-")[0]
        found.setdefault(first if first in _CHAPTERS else "", []).append(section)
    return {name: found[name] for name in _CHAPTERS if name in found}


def _short(title: str) -> str:
    """A title without the words that its chapter says already."""
    start, colon, rest = title.partition(": ")
    return rest[:1].upper() + rest[1:] if colon and start in ("Triage", "Synthetic") else title


def _summary(sections: Sequence[Section], facts: Mapping[str, str]) -> str:
    lines = []
    others = []
    for section in sections:
        e = section.experiment
        link = f'<a href="#{escape(e.id)}">{typeset(escape(e.title))}</a>'
        judged, source = _agreement(section), escape(e.source) or _BEYOND
        if e.source or judged:
            lines.append(f"<tr><td>{link}</td><td>{source}</td><td>{judged} <small>{typeset(e.why)}</small></td></tr>")
        else:
            others.append(link)
    beyond = f"<p>Beyond the paper: {'; '.join(others)}.</p>" if others else ""
    protocols = "".join(f"<li>{typeset(_PROTOCOLS[name])}</li>" for name in _used_protocols(sections))
    return (
        f'<h1 id="summary">{_TITLE}</h1>'
        "<p>Every table of <i>Learning to Orchestrate Agents under Uncertainty</i> beside the published one. "
        '<span class="in">Green ✓</span>: our mean lies within one published spread of the published mean. '
        '<span class="out">Orange ✗</span>: it does not. A cell shows our mean ± standard deviation over seeds, '
        "then the published value; z is the difference over its standard error, both errors counted. What the paper "
        "calls a 95 % confidence interval is a standard deviation over seeds, except in its synthetic λ ablation. "
        "Hatched cells are no predictions: a parameter was <i>fitted</i> (f) to the number, or a reading of the paper "
        "was <i>selected</i> (s) because it reproduces it. They are counted apart. <i>By chance</i> is the score of a "
        "perfect reproduction: the same code run again with other seeds.</p>"
        f"{_total(sections)}"
        f"<p>{_made(facts)}</p>"
        "<div class=scroll><table class=summary><tr><th>Experiment</th><th>In the paper</th><th>Agreement</th></tr>"
        f"{''.join(lines)}</table></div>"
        f"{beyond}<ul class=notes>{protocols}</ul>{facts_table(facts)}"
    )


def _total(sections: Sequence[Section]) -> str:
    """All published numbers together; nothing where none was run."""
    found = agreement([row for section in sections for row in section.rows])
    if not found.cells:
        return ""
    return (
        f"<p>Of {found.cells} published numbers {found.inside} ({found.inside / found.cells:.0%}) are green; a perfect "
        f"reproduction would score {found.chance_inside / found.cells:.0%}. |z| &gt; 2 in {found.beyond}; by chance "
        f"{found.chance_beyond:.0f}. Numbers of one run depend on each other, so these counts scatter more than "
        "independent ones would.</p>"
    )


def _made(facts: Mapping[str, str]) -> str:
    told = [facts[name] for name in ("Run time", "Machine", "Versions") if name in facts]
    return f"<small>Made by <code>{escape(facts.get('Command', ''))}</code>. {escape('. '.join(told))}.</small>"


def _agreement(section: Section) -> str:
    verdicts = [row for row in section.rows if row.metric == "verdict"]
    if verdicts:
        said = (_verdict(row.mean, row.method) for row in verdicts)
        return "; ".join(said)
    if any(row.metric == "finding" for row in section.rows):
        return section.notes[0]
    return "<br>".join(agreement_words(section.rows)) or ("no numbers printed" if section.experiment.source else "")


def _verdict(value: float, name: str) -> str:
    words, shade = VERDICTS.get(value, ("mixed", "mended"))
    return f"{typeset(escape(name))}: <span class='chip {shade}'>{words}</span>"


def _used_protocols(sections: Sequence[Section]) -> list[str]:
    used = {row.protocol for section in sections for row in section.rows}
    return [name for name in _PROTOCOLS if name in used]


def _section(section: Section) -> str:
    e = section.experiment
    parts = [
        f'<section id="{escape(e.id)}"><h3>{typeset(escape(e.title))}</h3>{_chips(section)}<p>{typeset(e.about)}</p>',
        *_notes(section),
    ]
    figures = [figure_html(view.name, view.caption, paths, formulas=True) for view, paths in section.figures]
    tables = [lay_out(view, section.rows) for view in section.tables]
    lead = 1 if e.source or not section.notes else 0
    shown = _shown(tables, told=bool(figures or section.notes))
    parts += figures[:lead]
    protocols = {row.protocol for row in section.rows}
    parts.append(_grid(shown, named=len(protocols) > 1, counted=False))
    folded = [table for table in tables if table not in shown]
    parts.append(_extras(figures[lead:], folded, hints=_names(section, lead)))
    return "".join(parts) + "</section>"


def _extras(figures: Sequence[str], tables: Sequence[Laid], *, hints: Sequence[str]) -> str:
    """What is not shown, behind one fold: figures, then tables."""
    counts = [_count(number, noun) for number, noun in ((len(figures), "figure"), (len(tables), "table")) if number]
    if not counts:
        return ""
    told = "; ".join([*hints, *(typeset(escape(table.title)) for table in tables)])
    return fold(f"More: {', '.join(counts)}", "".join(figures) + _grid(tables, named=True, counted=True), told)


def _chips(section: Section) -> str:
    source = section.experiment.source
    chips = [f"<span class=chip>{f'in the paper: {escape(source)}' if source else _BEYOND}</span>"]
    chips += [f"<span class=chip>{words}</span>" for words in agreement_words(section.rows)]
    protocols = dict.fromkeys(row.protocol for row in section.rows)
    chips += [f"<span class=protocol>{escape(name)} protocol</span>" for name in protocols if name != "theory"]
    return f"<div class=chips>{''.join(chips)}</div>"


def _notes(section: Section) -> list[str]:
    """Sentences computed from the results; verdicts all, of others the first few."""
    verdict = {row.method: VERDICTS.get(row.mean) for row in section.rows if row.metric == "verdict"}
    notes, tables = [], []
    for note in section.notes:
        if note.startswith("<details"):
            tables.append(typeset(note))
            continue
        about = next((v for name, v in verdict.items() if note.startswith(f"<b>{name}: ")), None)
        marked = note.replace("<b>", f'<b class="{about[1]}">', 1) if about else note
        notes.append(f"<li>{typeset(marked)}</li>")
    limit = len(notes) if verdict or len(notes) <= _SHOWN_NOTES + 1 else _SHOWN_NOTES
    shown = [f"<ul class=notes>{''.join(notes[:limit])}</ul>"] if notes else []
    rest = notes[limit:]
    if rest:
        shown.append(fold(_count(len(rest), "more note"), f"<ul class=notes>{''.join(rest)}</ul>"))
    return shown + tables


def _shown(tables: Sequence[Laid], *, told: bool) -> list[Laid]:
    """Tables that are not folded: the first with published numbers, or the first where nothing else is shown."""
    shown: list[Laid] = []
    for table in (table for table in tables if table.published or not told):
        if table.lines > _SHOWN_LINES or sum(t.cells for t in shown) + table.cells > _SHOWN_CELLS:
            break
        shown.append(table)
    return shown or ([] if told else list(tables[:1]))


def _grid(tables: Iterable[Laid], *, named: bool, counted: bool) -> str:
    """Tables side by side, those of one protocol under its name; the section counts for tables that it shows."""
    parts = []
    for protocol, members in groupby(tables, key=lambda table: table.protocol):
        inner = "".join(table.counted if counted else table.html for table in members)
        name = f"<p><span class=protocol>{escape(protocol)} protocol</span></p>" if named else ""
        parts.append(f"{name}<div class=tables>{inner}</div>")
    return "".join(parts)


def _names(section: Section, start: int) -> list[str]:
    """The first sentences of the captions of figures that are folded."""
    return [typeset(escape(view.caption.split(". ")[0].rstrip("."))) for view, _ in section.figures[start:]]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("s" if number > 1 else "")
