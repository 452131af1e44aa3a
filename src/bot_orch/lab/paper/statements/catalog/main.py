"""Every empirical sentence of the paper with a computed verdict."""

from __future__ import annotations

from collections.abc import Sequence

from bot_orch.lab.harness.experiment import Experiment
from bot_orch.lab.harness.tables import ResultRow, all_published
from bot_orch.lab.paper.statements import runs
from bot_orch.lab.paper.statements.evidence import ours, printed
from bot_orch.lab.paper.statements.page import entries, finding_rows, ledger_notes


def _conclude(rows: Sequence[ResultRow]) -> tuple[list[ResultRow], list[str]]:
    ledger = entries(printed(all_published()), ours(rows))
    return finding_rows(ledger), ledger_notes(ledger)


EXPERIMENT = Experiment(
    id=runs.ID,
    title="The paper's empirical claims, sentence by sentence",
    about="Each sentence is judged twice, by the same function: on the numbers that the paper prints, and on our runs "
    "under its protocol. A sentence about all environments fails if one contradicts it; <i>in part</i> means that some "
    "of what it says holds, or that it holds within the error only; <i>open</i> that its numbers were not run. "
    "Quotations are the paper's words; everything else on this page is ours.",
    units=runs.units,
    run=runs.run,
    rows=runs.rows,
    conclude=_conclude,
    source="every empirical sentence",
    order=30,
)
