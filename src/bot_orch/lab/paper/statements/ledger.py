"""Every empirical sentence of the paper with a computed verdict, as an experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bot_orch.lab.harness.experiment import Experiment
from bot_orch.lab.harness.tables import ResultRow, all_published, rows_from_seeds
from bot_orch.lab.paper.statements.evidence import Evidence, Finding, Judgement, ours, printed
from bot_orch.lab.paper.statements.learning import ID, rows, run, units
from bot_orch.lab.paper.statements.sentences import OURS, PRINTED, SENTENCES, Sentence


@dataclass(frozen=True, slots=True)
class Entry:
    """A sentence with its judgements, by source."""

    sentence: Sentence
    judgements: dict[str, Judgement]


def entries(printed: Evidence, ours: Evidence) -> list[Entry]:
    """Judge every sentence on its sources; those without runs stay open."""
    sources = {PRINTED: printed, OURS: ours}
    return [Entry(s, {name: _judge(s, sources[name]) for name in s.on}) for s in SENTENCES]


def _judge(sentence: Sentence, evidence: Evidence) -> Judgement:
    try:
        return sentence.judge(evidence)
    except LookupError:
        return Judgement(Finding.OPEN, "Not run.")


def finding_rows(ledger: Sequence[Entry]) -> list[ResultRow]:
    """One row per sentence and source: 1 for holds, 0.5 in part, 0 fails."""
    return [
        row
        for entry in ledger
        for source, found in entry.judgements.items()
        for row in rows_from_seeds(
            ID, source, "paper", method=entry.sentence.name, metrics={"finding": [found.verdict.value]}, compare=False
        )
    ]


def ledger_notes(ledger: Sequence[Entry]) -> list[str]:
    """Counts, then a collapsed table per part of the paper."""
    parts: dict[str, list[Entry]] = {}
    for entry in ledger:
        parts.setdefault(entry.sentence.place.split(",")[0], []).append(entry)
    counts = "; ".join(f"on {source}: {_counts(ledger, source)}" for source in (PRINTED, OURS))
    said = [f"<b>{len(ledger)} sentences</b>, {counts}. Verdicts are computed; an error is that of both sides."]
    return said + [_table(name, members) for name, members in parts.items()]


def _counts(ledger: Sequence[Entry], source: str) -> str:
    found = Counter(entry.judgements[source].verdict for entry in ledger if source in entry.judgements)
    words = {Finding.HOLDS: "hold", Finding.PARTLY: "in part", Finding.FAILS: "fail", Finding.OPEN: "open"}
    said = [f"{found[finding]} {word}" for finding, word in words.items() if found[finding]]
    rest = len(ledger) - found.total()
    return ", ".join([*said, f"{rest} cannot be judged there"] if rest else said)


def _table(name: str, members: Sequence[Entry]) -> str:
    head = f"<tr><th>The paper says</th><th>On {PRINTED}</th><th>On {OURS}</th></tr>"
    lines = "".join(_line(entry) for entry in members)
    inside = f"<div class=scroll><table class=ledger>{head}{lines}</table></div>"
    return f"<details><summary>{escape(name)}: {len(members)} sentences</summary>{inside}</details>"


def _line(entry: Entry) -> str:
    s = entry.sentence
    cells = "".join(_cell(entry.judgements.get(source)) for source in (PRINTED, OURS))
    words = f"“{escape(s.quote)}”" if s.quoted else f"<i>{escape(s.quote)}</i>"
    return f"<tr><td>{words}<br><small>{escape(s.place)}</small></td>{cells}</tr>"


def _cell(found: Judgement | None) -> str:
    if found is None:
        return "<td></td>"
    shade = {Finding.HOLDS: "in", Finding.FAILS: "out"}.get(found.verdict, "")
    return f'<td class="{shade}"><b>{found.verdict.words}</b><br><small>{found.why}</small></td>'


def _conclude(found: Sequence[ResultRow]) -> tuple[list[ResultRow], list[str]]:
    ledger = entries(printed(all_published()), ours(found))
    return finding_rows(ledger), ledger_notes(ledger)


EXPERIMENT = Experiment(
    id=ID,
    title="The paper's empirical claims, sentence by sentence",
    about="Each sentence is judged twice, by the same function: on the numbers that the paper prints, and on our runs "
    "under its protocol. A sentence about all environments fails if one contradicts it; <i>in part</i> means that some "
    "of what it says holds, or that it holds within the error only; <i>open</i> that its numbers were not run. "
    "Quotations are the paper's words; everything else on this page is ours.",
    units=units,
    run=run,
    rows=rows,
    conclude=_conclude,
    source="every empirical sentence",
    order=30,
)
