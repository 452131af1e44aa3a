"""A committee of two: the paper's future work, delegation to more than one agent."""

from __future__ import annotations

import numpy as np

from bot_orch.lab.environments.synthetic.settings import ENVIRONMENTS
from bot_orch.lab.harness.experiment import Experiment, Results, Scale, Unit
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.lab.paper.extensions.committee import RULES, run_committee

_METRICS = {
    "reward": "Reward a round",
    "net_of_taken": "Net utility a round, alignment cost of the answer that is taken",
    "net_of_both": "Net utility a round, alignment cost of both agents",
}


def _units(scale: Scale) -> list[Unit]:
    seeds = scale.n_seeds(40, quick=10)
    return [Unit(name, {"environment": name, "seeds": seeds}) for name in ENVIRONMENTS]


def _rows(results: Results) -> list[ResultRow]:
    return [
        row
        for environment, payload in results.items()
        for rule, metrics in payload.items()
        for row in rows_from_seeds(
            "committee", environment, "paper", method=rule, lambda_=0.0, metrics=metrics, compare=False
        )
    ]


def _notes(results: Results) -> list[str]:
    said = []
    for rule in RULES[1:]:
        gain = {name: _gain(payload, rule, "reward") for name, payload in results.items()}
        both = {name: _gain(payload, rule, "net_of_both") for name, payload in results.items()}
        pays = sum(mean > 2.0 * error for mean, error in gain.values())
        loses = sum(mean < -2.0 * error for mean, error in both.values())
        low, high = min(mean for mean, _ in gain.values()), max(mean for mean, _ in gain.values())
        said.append(
            f"<b>{rule}</b>: a second call raises the reward beyond two errors in {pays} of {len(gain)} environments, "
            f"by {low:+.3f} to {high:+.3f} a round: it pays where it costs less than that. If the alignment cost of "
            f"both agents is paid it loses in {loses} of {len(both)}."
        )
    return said


def _gain(payload: dict[str, dict[str, list[float]]], rule: str, metric: str) -> tuple[float, float]:
    gap = np.array(payload[rule][metric]) - np.array(payload["one agent"][metric])
    return float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(gap.size)) if gap.size > 1 else np.inf


EXPERIMENT = Experiment(
    id="committee",
    title="A committee of two agents",
    about="The paper names richer coordination as future work. BOT-Orch asks a second agent, the best aligned of the "
    "others, and one answer is taken: of the first to complete, of the one seen as better aligned, or of the better "
    "one, which needs a judge who is never wrong. BOT-Orch learns from its first choice alone. Differences are "
    "paired by seed.",
    units=_units,
    run=run_committee,
    rows=_rows,
    tables=lambda: [
        TableView(title, metric, "paper", columns=RULES, experiment="committee", digits=3)
        for metric, title in _METRICS.items()
    ],
    notes=_notes,
    order=31,
)
