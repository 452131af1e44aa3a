"""One self-contained HTML page: every table beside the paper's, every figure, how it was run."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from bot_orch.experiments.harness.counting import agreement, agreement_words
from bot_orch.experiments.harness.experiment import Experiment, FigureView
from bot_orch.experiments.harness.tables import ResultRow, TableView
from bot_orch.files import write_atomically

__all__ = ["Section", "write_report"]

_PROTOCOLS = {
    "paper": "<b>paper</b>: the policy is given what the paper gives it. In triage that is the revealed answer, which "
    "no deployed router has, and each method is scored with its own lambda, so rows are not comparable. In the "
    "synthetic tables it is the distance to the task's true reference, seen through noise, and one lambda scores all.",
    "deployable": "<b>deployable</b>: nothing about the current answer is known before the choice. "
    "All methods are scored with one common lambda.",
    "theory": "<b>theory</b>: a statement of the theorem is run; its verdict is computed from the numbers.",
}
_VERDICTS = {1.0: "holds", 0.5: "holds with a correction", 0.0: "fails as stated"}


@dataclass(frozen=True, slots=True)
class Section:
    """An experiment and everything to show of it."""

    experiment: Experiment
    rows: Sequence[ResultRow]
    tables: Sequence[TableView]
    _: KW_ONLY
    figures: Sequence[tuple[FigureView, tuple[Path, Path]]]
    notes: Sequence[str]


def write_report(out: Path, sections: Sequence[Section], facts: dict[str, str]) -> Path:
    """Write ``index.html`` and return its path."""
    style = files("bot_orch.experiments.harness").joinpath("report.css").read_text()
    body = [_summary(sections), _facts(facts), *(_section(section) for section in sections)]
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>BOT-Orch: the paper, reproduced</title><style>{style}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )
    write_atomically(out / "index.html", page.encode())
    return out / "index.html"


def _summary(sections: Sequence[Section]) -> str:
    lines = []
    for section in sections:
        link = f'<a href="#{escape(section.experiment.id)}">{escape(section.experiment.title)}</a>'
        lines.append(
            f"<tr><td>{link}</td><td>{_agreement(section)}</td><td class=why>{section.experiment.why}</td></tr>"
        )
    return (
        "<h1>BOT-Orch: the paper, reproduced</h1>"
        "<p>Every table of <i>Learning to Orchestrate Agents under Uncertainty</i> beside the published one. "
        '<span class="in">Green</span>: our mean lies within one published spread of the published mean. '
        '<span class="out">Orange</span>: it does not. A cell shows our mean ± standard deviation over seeds, '
        "then the published value and z, the difference over its standard error, both errors counted. What the paper "
        "calls a 95 % confidence interval is a standard deviation over seeds, except in its synthetic lambda ablation "
        "(computed in the claims ledger). Hatched cells are no predictions: a parameter was <i>fitted</i> to the "
        "number, or a reading of the paper was <i>selected</i> because it reproduces it. They are counted apart. "
        "<i>By chance</i> is the score of a perfect reproduction: the same code run again with other seeds.</p>"
        f"{_total(sections)}"
        "<div class=scroll><table class=summary><tr><th>Experiment</th><th>Agreement</th><th>Why</th></tr>"
        f"{''.join(lines)}</table></div>"
        f"<ul>{''.join(f'<li>{_PROTOCOLS[name]}</li>' for name in _used_protocols(sections))}</ul>"
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


def _agreement(section: Section) -> str:
    verdicts = [row for row in section.rows if row.metric == "verdict"]
    if verdicts:
        said = (f"{escape(row.method)}: <b>{_VERDICTS.get(row.mean, 'mixed')}</b>" for row in verdicts)
        return "<br>".join(said)
    counted = agreement_words(section.rows)
    if counted:
        return "<br>".join(counted)
    source = section.experiment.source
    return f"{escape(source)}; it prints no numbers" if source else "ours: not in the paper"


def _used_protocols(sections: Sequence[Section]) -> list[str]:
    used = _unique(row.protocol for section in sections for row in section.rows)
    return [name for name in _PROTOCOLS if name in used]


def _facts(facts: dict[str, str]) -> str:
    items = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts.items())
    table = f"<div class=scroll><table class=facts>{items}</table></div>"
    return f"<details><summary>How this page was made</summary>{table}</details>"


def _section(section: Section) -> str:
    e = section.experiment
    parts = [f'<section id="{escape(e.id)}"><h2>{escape(e.title)}</h2><p>{e.about}</p>']
    parts += [f"<p class=note>{note}</p>" for note in section.notes]
    parts += [_table(view, section.rows) for view in section.tables]
    parts += [_figure(view, paths) for view, paths in section.figures]
    return "".join(parts) + "</section>"


def _figure(view: FigureView, paths: tuple[Path, Path]) -> str:
    data = base64.b64encode(paths[0].read_bytes()).decode("ascii")
    caption = escape(view.caption)
    return (
        f'<figure id="{escape(view.name)}"><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption} (also figures/{escape(paths[1].name)})</figcaption></figure>"
    )


def _table(view: TableView, rows: Sequence[ResultRow]) -> str:
    chosen = [r for r in rows if r.metric == view.metric and r.protocol == view.protocol]
    if view.experiment is not None:
        chosen = [r for r in chosen if r.experiment == view.experiment]
    across = list(view.columns) or _unique(_field(row, view.across) for row in chosen)
    down = list(view.lines) or _unique(_field(row, view.down) for row in chosen if _field(row, view.across) in across)
    cells = {(_field(row, view.down), _field(row, view.across)): row for row in chosen}
    head = "".join(f"<th>{escape(name)}</th>" for name in across)
    lines = []
    for name in down:
        line = "".join(_cell(cells.get((name, column)), view.digits) for column in across)
        lines.append(f"<tr><th>{escape(name)}</th>{line}</tr>")
    note = f"<p class=note>{view.note}</p>" if view.note else ""
    title = f"{escape(view.title)} <span class=protocol>{escape(view.protocol)} protocol</span>"
    table = f"<table><tr><th>{escape(view.down)}</th>{head}</tr>{''.join(lines)}</table>"
    shown = [cells[name, column] for name in down for column in across if (name, column) in cells]
    count = "".join(f"<p class=count>{words}.</p>" for words in agreement_words(shown))
    return f"<h3>{title}</h3>{note}<div class=scroll>{table}</div>{count}"


def _cell(row: ResultRow | None, digits: int) -> str:
    if row is None:
        return "<td></td>"
    spread = f"± {row.std:.{digits}f}"
    if row.range is not None:
        spread = f"[{row.range[0]:.{digits}f}, {row.range[1]:.{digits}f}]"
    ours = f"{row.mean:.{digits}f} {spread}"
    if row.paper is None:
        return f"<td>{ours}</td>"
    shade = ("in" if row.inside else "out") + ("" if row.basis == "prediction" else f" {row.basis}")
    if row.basis == "elsewhere":
        shade = row.basis
    theirs = f"{row.paper.mean:.{digits}f} ± {row.paper.spread:.{digits}f}"
    z = "" if row.z is None else f", z {row.z:+.1f}"
    mark = f", {row.basis}" if row.basis in ("fitted", "selected") else ""
    return f'<td class="{shade}">{ours}<br><small>paper {theirs}{z}{mark}</small></td>'


def _field(row: ResultRow, name: str) -> str:
    return f"{row.lambda_:g}" if name == "lambda" else str(getattr(row, name))


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
