"""Long horizon: fixed-temperature softmax over 20 000 rounds, and schedules with sublinear regret."""

from __future__ import annotations

from functools import partial

from bot_orch.lab.harness.experiment import Experiment, FigureView, Results, Scale, Unit
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.lab.paper.synthetic import figures as draw
from bot_orch.lab.paper.synthetic.long_run import PANELS, POLICIES, run_long

_ROUNDS, _QUICK_ROUNDS = 20_000, 1_000
#: With alignment the policy sees the distance to the task's true reference, through noise, as in the paper.
_PROTOCOLS = {"reward": "deployable", "alignment": "paper"}


def _units(scale: Scale) -> list[Unit]:
    rounds = _QUICK_ROUNDS if scale.quick else _ROUNDS
    seeds = scale.n_seeds(20, quick=4)
    return [
        Unit(f"{panel}/{name}", {"panel": panel, "policy": name, "rounds": rounds, "seeds": seeds})
        for panel in PANELS
        for name in POLICIES[panel]
    ]


def _rows(results: Results) -> list[ResultRow]:
    rows = []
    for key, payload in results.items():
        panel, name = key.split("/")
        rows += rows_from_seeds(
            "synthetic-long",
            panel,
            _PROTOCOLS[panel],
            method=name,
            lambda_=0.0,
            metrics={"regret": payload["final"]},
            compare=False,
        )
    return rows


def _notes(results: Results) -> list[str]:
    parts = []
    for panel in PANELS:
        chosen = {key.split("/")[1]: value for key, value in results.items() if key.startswith(f"{panel}/")}
        best = min(chosen, key=lambda name: chosen[name]["mean"][-1])
        fixed = chosen["eta = 1.5, moving average"]
        rounds = fixed["rounds"][-1]
        parts.append(
            f"{panel}: after {rounds} rounds the fixed temperature has lost {fixed['mean'][-1]:.0f}, "
            f"{best} {chosen[best]['mean'][-1]:.0f}"
        )
    return [
        "; ".join(parts) + ".",
        "A constant eta keeps drawing agents it knows to be worse, at the same rate for ever; one that grows with the "
        "square root of t, over plain means with a weak prior, does not. Loss per round since round "
        f"{_late(results)}.",
    ]


def _late(results: Results) -> str:
    """Loss per round over the last stretch, of both etas and in both panels."""
    names = {"constant": "eta = 1.5, moving average", "growing": "eta = sqrt(t), mean"}
    told, start = [], 0
    for panel in PANELS:
        for word, name in names.items():
            found = results[f"{panel}/{name}"]
            start, end = found["rounds"][-2:]
            told.append(f"{panel}, {word} {(found['mean'][-1] - found['mean'][-2]) / (end - start):.4f}")
    return f"{start}: " + "; ".join(told)


def _figures(results: Results) -> list[FigureView]:
    return [
        FigureView(
            "synthetic-long",
            "Cumulative regret on iid-g (logarithmic above 10). Left: rewards only. Right: with alignment. Lines that "
            "keep rising with slope one are losses that never stop.",
            partial(draw.draw_long, results, PANELS),
        )
    ]


EXPERIMENT = Experiment(
    id="synthetic-long",
    title="Synthetic: twenty thousand rounds",
    about="Two hundred rounds flatter a fixed temperature. On iid-g over a long horizon, with rewards only and with "
    "alignment. With rewards only, agents' outputs are three times as wide, so that their rewards differ too. With "
    "alignment, regret is counted against a router that knows all mean rewards, believes the noisy "
    "alignment and never explores.",
    units=_units,
    run=run_long,
    rows=_rows,
    tables=lambda: [
        TableView("Regret at the end", "regret", protocol, down="method", across="environment", digits=1)
        for protocol in _PROTOCOLS.values()
    ],
    figures=_figures,
    notes=_notes,
    order=24,
)
