"""One self-contained HTML page: every figure, every table next to the paper's, and how it was run.

The answer comes first: three sentences and one figure, then the overview. A section shows its sentences; one that
reproduces something of the paper shows its first figure and every table with published numbers. Everything else is
one click away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from bot_orch.files import write_atomically
from bot_orch.lab.harness.experiment import Experiment, FigureView
from bot_orch.lab.harness.figures import new_figure, save_figure
from bot_orch.lab.harness.frame import VERDICTS, Chapter, Laid, facts_table, figure_html, fold, html_page, lay_out
from bot_orch.lab.harness.tables import Agreement, ResultRow, TableView, agreement, agreement_words

_TITLE = "BOT-Orch: the paper, reproduced"
_PROTOCOLS = {
    "paper": "<b>paper</b>: the policy is given what the paper gives it. In triage that is the revealed answer, which "
    "no deployed router has, and each method is scored with its own lambda, so rows are not comparable. In the "
    "synthetic tables it is the distance to the task's true reference, seen through noise, and one lambda scores all.",
    "deployable": "<b>deployable</b>: nothing about the current answer is known before the choice. "
    "All methods are scored with one common lambda.",
    "theory": "<b>theory</b>: a statement of the theorem is run; its verdict is computed from the numbers.",
}
#: Chapters in the paper's order, by the first word of an experiment's id; others stand under the last title.
_CHAPTERS = {
    "theory": "The theorem",
    "synthetic": "Synthetic environments",
    "triage": "Triage",
    "claims": "The paper's claims",
    "readings": "Readings",
    "": "Further studies",
}
_SHOWN_NOTES = 3
_BEYOND = "beyond the paper"
_SHADES = {"reproduced": "holds", "in part": "mended", "not reproduced": "fails"}
#: Groups of published numbers in the answer, by experiment.
_GROUPS = {
    "Triage (Tables 3 and 6)": "triage",
    "Triage, lambda (Table 7)": "triage-lambda",
    "Synthetic (Tables 1, 2 and 4)": "synthetic",
    "Synthetic, lambda (Table 5)": "synthetic-lambda",
}
_METHODS = ("bot-orch", "no-ot", "random", "ucb1")
_PLURAL = {1.0: "hold", 0.5: "hold with a correction", 0.0: "fail as stated"}
_FARTHEST = 8.0  # z scores beyond are drawn at the edge
_LEGEND = (
    "<p>{seeds} <span class='in'>Green ✓</span>: the published mean lies in the "
    "95 % interval of a mean over the paper's number of seeds, computed from our runs; <span class='out'>orange "
    "✗</span>: it does not. Of a perfect reproduction 95 % of the cells are green. A cell shows z, our mean ± standard "
    "deviation over seeds, the published value, and that interval; z is the difference over its standard error, "
    "both errors counted. What the paper calls a 95 % confidence interval is a standard deviation over seeds, except "
    "in "
    "its synthetic λ ablation. Hatched cells are no predictions: a parameter was <i>fitted</i> (f) to the number, or a "
    "reading of the paper was <i>selected</i> (s) because it reproduces it, or another table of the paper contradicts "
    "it (c). They are counted apart. Numbers of one run "
    "depend on each other, so counts scatter more than independent ones would.</p>"
)


@dataclass(frozen=True, slots=True)
class Section:
    """An experiment and everything to show about it."""

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
    ordered = [section for members in chapters.values() for section in members]
    parts = [f'<h1 id="summary">{_TITLE}</h1>', _preview(facts), _answer(out, ordered), _summary(ordered, facts)]
    for name, members in chapters.items():
        ident = f"chapter-{name or 'more'}"
        inside = [(section.experiment.id, _short(section.experiment.title)) for section in members]
        entries.append(Chapter(ident, _CHAPTERS[name], inside))
        parts.append(f'<h2 id="{ident}">{_CHAPTERS[name]}</h2>')
        parts += [_section(section) for section in members]
    write_atomically(out / "index.html", html_page(_TITLE, "".join(parts), entries))
    return out / "index.html"


def _preview(facts: Mapping[str, str]) -> str:
    """A warning above the answer if the run was smaller than a full one."""
    if "Preview" not in facts:
        return ""
    return (
        f"<p class=answer><b>This is a preview</b>: {escape(facts['Preview'])}. The verdicts below can change "
        "with more; for a full run leave <code>--quick</code> and <code>--seeds</code> out.</p>"
    )


def _seeds_words(sections: Sequence[Section]) -> str:
    """How the number of seeds of these runs compares with the paper's."""
    of_tables = [row for section in sections if section.experiment.id in _GROUPS.values() for row in section.rows]
    published = [row for row in of_tables if row.paper is not None]
    more = sum(row.paper is not None and row.seeds > row.paper.seeds for row in published)
    if more == len(published):
        return "Our runs have more seeds than the paper's." if published else ""
    return f"Our runs have more seeds than the paper's behind {more} of {len(published)} published numbers."


def _answer(out: Path, sections: Sequence[Section]) -> str:
    """Three sentences that the numbers choose, and every published number as a dot."""
    rows = [row for section in sections for row in section.rows if row.protocol == "paper"]
    groups = {name: [row for row in rows if row.experiment == key] for name, key in _GROUPS.items()}
    said = [*_triage_answer(rows), *_synthetic_answer(rows), *theory_answer(sections)]
    if not said:
        return ""
    figure = ""
    if any(agreement(members).cells for members in groups.values()):
        paths = save_figure(partial(_draw_answer, groups), out / "figures" / "answer")
        caption = (
            "Every published number that was run: its z score by table. Grey: |z| below 2. Green: the published mean "
            "lies where a run with as many seeds would put it; orange: it does not. Hollow: no predictions."
        )
        figure = figure_html("answer", caption, paths)
    return f"<p class=answer>{' '.join(said)}</p>{figure}"


def _triage_answer(rows: Sequence[ResultRow]) -> list[str]:
    members = [row for row in rows if row.experiment in ("triage", "triage-lambda")]
    found = agreement(members)
    if not found.cells:
        return []
    return [
        f"<b>Triage is {_fully(found)}</b>: {found.inside} of {found.cells} published numbers of Tables 3, 6 and 7 "
        f"({_predicted(members)}) lie where a run with as many seeds would put them."
    ]


def _predicted(rows: Sequence[ResultRow]) -> str:
    """How many published numbers are inside of those that are predictions."""
    found = agreement(rows, "prediction")
    return f"of predictions alone {found.inside} of {found.cells}"


def _synthetic_answer(rows: Sequence[ResultRow]) -> list[str]:
    of_main, of_ablation = ([row for row in rows if row.experiment == n] for n in ("synthetic", "synthetic-lambda"))
    main, ablation = agreement(of_main), agreement(of_ablation)
    if not main.cells or not ablation.cells:
        return []
    first, of = _first_places(of_main)
    order = "reproduced" if first == of else f"reproduced in {first} of {of} comparisons"
    return [
        f"<b>Of the synthetic tables the ordering is {order}</b> (BOT-Orch best, by environment and metric), <b>the "
        f"numbers are {_fully(main)}</b> ({main.inside} of {main.cells} of Tables 1, 2 and 4, {_predicted(of_main)}), "
        f"<b>and Table 5 is {_fully(ablation)}</b> ({ablation.inside} of {ablation.cells}, {_predicted(of_ablation)})."
    ]


def _first_places(rows: Sequence[ResultRow]) -> tuple[int, int]:
    """Number of environments and metrics in which BOT-Orch has the best mean of the four methods, and the total."""
    best: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row.method in _METHODS and row.paper is not None:
            sign = 1.0 if row.metric in ("net_utility", "event_rate") else -1.0
            best.setdefault((row.environment, row.metric), {})[row.method] = sign * row.mean
    return sum(max(each, key=lambda name: each[name]) == "bot-orch" for each in best.values()), len(best)


def theory_answer(sections: Sequence[Section]) -> list[str]:
    """How many statements of the paper hold; what experiments beyond it find is not counted."""
    own = [s for s in sections if s.experiment.source]
    verdicts = [(s.experiment.title, [r.mean for r in s.rows if r.metric == "verdict"]) for s in own]
    every = [value for _, values in verdicts for value in values]
    if not every:
        return []
    failed = [title.removeprefix("Theorem, ") for title, values in verdicts if 0.0 in values]
    counts = ", ".join(f"{every.count(value)} {words}" for value, words in _PLURAL.items())
    return [f"<b>Of {len(every)} statements of the theorem</b> {counts}: {'; '.join(failed) or 'none'}."]


def _fully(found: Agreement) -> str:
    return {"in part": "reproduced in part"}.get(found.word, found.word)


def _draw_answer(groups: Mapping[str, Sequence[ResultRow]]) -> Any:
    """Plot published numbers as dots by z score, one line per group of tables."""
    shown = {name: [r for r in rows if r.z is not None] for name, rows in groups.items()}
    shown = {name: rows for name, rows in shown.items() if rows}
    figure, axes = new_figure(1, 1, 9.0, 0.7 * len(shown) + 0.9)
    axis = axes[0, 0]
    axis.axvspan(-2.0, 2.0, color="#9e9e9e", alpha=0.18, linewidth=0)
    for line, rows in enumerate(shown.values()):
        for index, row in enumerate(sorted(rows, key=lambda r: r.z or 0.0)):
            color = "#1b7f3b" if row.inside else "#b45309"
            at = -line + 0.3 * ((index * 7) % 11 - 5) / 5
            face = color if row.basis == "prediction" else "none"
            z = max(-_FARTHEST, min(_FARTHEST, row.z or 0.0))
            axis.plot(z, at, "o" if row.inside else "X", markersize=5, color=color, markerfacecolor=face)
    axis.set_yticks([-line for line in range(len(shown))], list(shown))
    axis.set(
        xlim=(-_FARTHEST - 0.4, _FARTHEST + 0.4),
        xlabel="z score of our mean against the published one (8 and beyond at the edge)",
    )
    axis.grid(visible=False, axis="y")
    return figure


def _chapters(sections: Sequence[Section]) -> dict[str, list[Section]]:
    """Sections by chapter, in reading order; those without a chapter come last."""
    found: dict[str, list[Section]] = {}
    for section in sections:
        first = section.experiment.id.split("-")[0]
        found.setdefault(first if first in _CHAPTERS else "", []).append(section)
    return {name: found[name] for name in _CHAPTERS if name in found}


def _short(title: str) -> str:
    """A title without the words of its chapter."""
    start, colon, rest = title.partition(": ")
    return rest[:1].upper() + rest[1:] if colon and start in ("Triage", "Synthetic") else title


def _summary(sections: Sequence[Section], facts: Mapping[str, str]) -> str:
    lines = []
    others = []
    for section in sections:
        e = section.experiment
        link = f'<a href="#{escape(e.id)}">{escape(e.title)}</a>'
        judged, source = _agreement(section), escape(e.source) or _BEYOND
        if e.source or judged:
            lines.append(f"<tr><td>{link}</td><td>{source}</td><td>{judged} <small>{e.why}</small></td></tr>")
        else:
            others.append(link)
    beyond = f"<p>Beyond the paper: {'; '.join(others)}.</p>" if others else ""
    protocols = "".join(f"<li>{_PROTOCOLS[name]}</li>" for name in _used_protocols(sections))
    return (
        "<div class=scroll><table class=summary><tr><th>Experiment</th><th>In the paper</th><th>Agreement</th></tr>"
        f"{''.join(lines)}</table></div>{beyond}"
        f"<p>Every table of <i>Learning to Orchestrate Agents under Uncertainty</i> next to the published one.</p>"
        f"{_LEGEND.format(seeds=_seeds_words(sections))}<ul class=notes>{protocols}</ul>"
        f"<p>{_made(facts)}</p>{facts_table(facts)}"
    )


def _made(facts: Mapping[str, str]) -> str:
    told = [facts[name] for name in ("Run time", "Machine", "Versions") if name in facts]
    return f"<small>Made by <code>{escape(facts.get('Command', ''))}</code>. {escape('. '.join(told))}.</small>"


def _agreement(section: Section) -> str:
    verdicts = [_verdict(row.mean, row.method) for row in section.rows if row.metric == "verdict"]
    if verdicts:
        return "; ".join(verdicts)
    if any(row.metric == "finding" for row in section.rows):
        return section.notes[0]
    found = agreement(section.rows)
    if not found.cells:
        return "no numbers printed" if section.experiment.source else ""
    chip = f"<span class='chip {_SHADES[found.word]}'>{found.word}: {found.inside} of {found.cells}</span>"
    return f"{chip}<br>{'<br>'.join(agreement_words(section.rows))}"


def _verdict(value: float, name: str) -> str:
    words, shade = VERDICTS.get(value, ("mixed", "mended"))
    return f"{escape(name)}: <span class='chip {shade}'>{words}</span>"


def _used_protocols(sections: Sequence[Section]) -> list[str]:
    used = {row.protocol for section in sections for row in section.rows}
    return [name for name in _PROTOCOLS if name in used]


def _section(section: Section) -> str:
    e = section.experiment
    parts = [
        f'<section id="{escape(e.id)}"><h3>{escape(e.title)}</h3>{_chips(section)}<p>{e.about}</p>',
        *_notes(section),
    ]
    figures = [figure_html(view.name, view.caption, paths) for view, paths in section.figures]
    tables = [lay_out(view, section.rows) for view in section.tables]
    lead = 1 if e.source or not section.notes else 0
    shown = _shown(tables, told=bool(figures or section.notes))
    parts += figures[:lead]
    parts.append(_grid(shown, named=len({row.protocol for row in section.rows}) > 1, counted=False))
    folded = [table for table in tables if table not in shown]
    hints = [escape(view.caption.split(". ")[0].rstrip(".")) for view, _ in section.figures[lead:]]
    parts.append(_extras(figures[lead:], folded, hints=hints))
    return "".join(parts) + "</section>"


def _extras(figures: Sequence[str], tables: Sequence[Laid], *, hints: Sequence[str]) -> str:
    """Everything not shown directly, in one collapsed element: figures, then tables; ``hints`` say what they show."""
    counts = [_count(len(each), noun) for each, noun in ((figures, "figure"), (tables, "table")) if each]
    if not counts:
        return ""
    told = "; ".join([*hints, *(escape(table.title) for table in tables)])
    return fold(f"More: {', '.join(counts)}", "".join(figures) + _grid(tables, named=True, counted=True), told)


def _chips(section: Section) -> str:
    source = section.experiment.source
    chips = [f"<span class=chip>{f'in the paper: {escape(source)}' if source else _BEYOND}</span>"]
    chips += [f"<span class=chip>{words}</span>" for words in agreement_words(section.rows)]
    protocols = dict.fromkeys(row.protocol for row in section.rows)
    chips += [f"<span class=protocol>{escape(name)} protocol</span>" for name in protocols if name != "theory"]
    return f"<div class=chips>{''.join(chips)}</div>"


def _notes(section: Section) -> list[str]:
    """Sentences computed from the results: all verdicts, and the first few others."""
    verdict = {row.method: VERDICTS.get(row.mean) for row in section.rows if row.metric == "verdict"}
    notes, tables = [], []
    for note in section.notes:
        if note.startswith("<details"):
            tables.append(note)
            continue
        about = next((v for name, v in verdict.items() if note.startswith(f"<b>{name}: ")), None)
        marked = note.replace("<b>", f'<b class="{about[1]}">', 1) if about else note
        notes.append(f"<li>{marked}</li>")
    limit = len(notes) if verdict or len(notes) <= _SHOWN_NOTES + 1 else _SHOWN_NOTES
    shown = [f"<ul class=notes>{''.join(notes[:limit])}</ul>"] if notes else []
    rest = notes[limit:]
    if rest:
        shown.append(fold(_count(len(rest), "more note"), f"<ul class=notes>{''.join(rest)}</ul>"))
    return shown + tables


def _shown(tables: Sequence[Laid], *, told: bool) -> list[Laid]:
    """Tables that are not collapsed: all with published numbers, or the first if nothing else is shown."""
    return [table for table in tables if table.published] or ([] if told else list(tables[:1]))


def _grid(tables: Iterable[Laid], *, named: bool, counted: bool) -> str:
    """Tables side by side, grouped by protocol."""
    parts = []
    for protocol, members in groupby(tables, key=lambda table: table.protocol):
        inner = "".join(table.counted if counted else table.html for table in members)
        name = f"<p><span class=protocol>{escape(protocol)} protocol</span></p>" if named else ""
        parts.append(f"{name}<div class=tables>{inner}</div>")
    return "".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("s" if number > 1 else "")
