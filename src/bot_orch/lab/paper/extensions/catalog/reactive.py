"""Tasks that react to past assignments: history-dependent against i.i.d.-minded policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bot_orch.lab.environments.contract import Trial
from bot_orch.lab.environments.reactive import ReactiveTasks
from bot_orch.lab.environments.stream import GivenAlignment
from bot_orch.lab.harness.experiment import Experiment, Results, Scale, Unit
from bot_orch.lab.harness.reactive import ReactiveEnvironment
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.numerics.estimators import EMA, LastReward, Mean
from bot_orch.numerics.schedules import Constant
from bot_orch.policies.base import Policy
from bot_orch.policies.bot import Bot, algorithm_1, algorithm_2
from bot_orch.policies.registry import make_policy
from bot_orch.policies.ucb1 import UCB1
from bot_orch.rng import derive_keys

#: i.i.d.-minded: estimates that average the past; history-dependent: estimates that follow the last rewards.
POLICIES: dict[str, Policy] = {
    "random": make_policy("random"),
    "ucb1": UCB1(),
    "running mean": Bot(Constant(5.0), Mean(prior=2.0)),
    "Algorithm 1": algorithm_1(),
    "Algorithm 2, f of the mean": algorithm_2(),
    "Algorithm 2, f of the last reward": algorithm_2(history=LastReward(0.05)),
    "last rewards only": Bot(Constant(5.0), EMA(0.2)),
}
_IID_MINDED = ("ucb1", "running mean", "Algorithm 1")
_HISTORY = ("Algorithm 2, f of the mean", "Algorithm 2, f of the last reward", "last rewards only")
_PLACES = {"returns 0.8": 0.8, "i.i.d.": 0.0}
_LAMBDAS = {"rewards only": 0.0, "with alignment": 1.0}


def _units(scale: Scale) -> list[Unit]:
    base = {"seeds": scale.n_seeds(40, 10), "rounds": 200 if scale.quick else 400}
    return [
        Unit(f"{name}/{given}", {**base, "policy": name, "given": given}) for given in _LAMBDAS for name in POLICIES
    ]


def _run(params: Mapping[str, Any]) -> dict[str, Any]:
    """The policy in both environments, and on the stream that Random met in the reactive one."""
    seeds, rounds, lambda_ = range(params["seeds"]), params["rounds"], _LAMBDAS[params["given"]]
    policy = POLICIES[params["policy"]]
    trial = Trial(seeds, rounds, lambda_=lambda_, score_lambda=1.0)
    found: dict[str, Any] = {
        place: ReactiveEnvironment().play(policy, {"returns": returns}, trial) for place, returns in _PLACES.items()
    }
    return {**found, "logged under random": _on_log(policy, trial)}


def _on_log(policy: Policy, trial: Trial) -> dict[str, list[float]]:
    """What replay on the tasks that Random met would report."""
    tasks, keys = ReactiveTasks(trial.seeds, trial.rounds), derive_keys(["reactive-draw"], trial.seeds)
    simulate(POLICIES["random"], tasks.stream, keys, source=tasks)
    seen = np.stack([tasks.at(t) for t in range(trial.rounds)])
    trace = simulate(policy, tasks.stream, keys, lambda_=trial.lambda_, source=GivenAlignment(seen))
    net = trace.pick(tasks.stream.reward - trial.score_lambda * tasks.stream.alignment)
    return {"net_utility": net.mean(axis=0).tolist()}


def _rows(results: Results) -> list[ResultRow]:
    rows = []
    for key, payload in results.items():
        name, given = key.split("/")
        for place, metrics in payload.items():
            rows += rows_from_seeds(
                "reactive",
                f"{place}, {given}",
                "deployable",
                method=name,
                lambda_=_LAMBDAS[given],
                metrics=metrics,
                compare=False,
            )
    return rows


def _notes(results: Results) -> list[str]:
    said = []
    for given in _LAMBDAS:
        parts = []
        for place in _PLACES:
            best = {
                label: max(group, key=lambda name: _mean(results, name, given, place=place))
                for label, group in (("i.i.d.-minded", _IID_MINDED), ("history-dependent", _HISTORY))
            }
            values = {label: np.array(results[f"{name}/{given}"][place]["net_utility"]) for label, name in best.items()}
            gap = values["history-dependent"] - values["i.i.d.-minded"]
            error = gap.std(ddof=1) / np.sqrt(gap.size)
            verdict = "ahead of" if gap.mean() > 2 * error else "behind" if gap.mean() < -2 * error else "level with"
            parts.append(
                f"{place}: the best history-dependent policy ({best['history-dependent']}) is {verdict} the best "
                f"i.i.d.-minded one ({best['i.i.d.-minded']}), {gap.mean():+.3f} +- {error:.3f} a round, paired"
            )
        said.append(f"<b>{given}</b>. {'; '.join(parts)}.")
    off = {
        name: _mean(results, name, "with alignment", place="logged under random")
        - _mean(results, name, "with alignment", place="returns 0.8")
        for name in POLICIES
    }
    worst = max(off, key=lambda name: abs(off[name]))
    said.append(
        f"Replay on a log reports another value than play where tasks react: for {worst} it is off by "
        f"{off[worst]:+.3f} a round, because the log holds the tasks that Random's failures brought back."
    )
    return said


def _mean(results: Results, name: str, given: str, *, place: str) -> float:
    return float(np.mean(results[f"{name}/{given}"][place]["net_utility"]))


def _tables() -> list[TableView]:
    titles = {"net_utility": "Net utility a round, lambda = 1", "returned": "Share of tasks that came back"}
    return [
        TableView(title, metric, "deployable", down="method", across="environment", experiment="reactive", digits=3)
        for metric, title in titles.items()
    ]


EXPERIMENT = Experiment(
    id="reactive",
    title="Tasks that react to past assignments",
    about="The paper lets tasks depend on past assignments, x_t ~ P(. | H_t); its experiments do not. Here a task that "
    "failed comes back with probability 0.8. Three specialists, a generalist, three kinds of task; with rewards only, "
    "and with the alignment of the task seen through noise. The best of three policies is compared on each side, "
    "without correction for choosing it.",
    units=_units,
    run=_run,
    rows=_rows,
    tables=_tables,
    notes=_notes,
    order=30,
)
