"""Runs that no table of the paper needs and some of its sentences do.

BOT-Orch without f; BOT-Orch whose reward estimates stay at zero, so that alignment alone routes; how gaps grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bot_orch.lab.environments.triage import HUMAN, TriageCondition, episodes, load_triage, paper_alignment
from bot_orch.lab.harness.experiment import Results, Scale, Unit
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.harness.tables import ResultRow, rows_from_seeds
from bot_orch.policies.base import Policy
from bot_orch.policies.bot import algorithm_1, algorithm_2
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys

__all__ = ["ID", "LARGE", "MARKS", "rows", "run", "units"]

ID = "claims"
#: Rounds at which cumulative net utility is taken: a quarter, the shift, the end.
MARKS = (28, 57, 114)
_CONDITIONS: tuple[TriageCondition, ...] = ("iid", "noniid")
_SMALL = (0.0, 0.5, 1.0, 1.25)
#: Lambdas at which BOT-Orch is compared with itself without learning.
LARGE = (3.0, 5.0, 10.0)
_FROZEN = 1.0 - 1e-12  # the largest alpha: rhat stays at zero
_SCORES = {"bot-orch": 3.0, "no-ot": 0.0, "random": 2.0, "ucb1": 2.0}  # each method's own lambda, as in the tables


def units(scale: Scale) -> list[Unit]:
    """Small lambdas without f, the four methods, and large lambdas with and without learning."""
    seeds = scale.n_seeds(30)
    found = [
        Unit(f"noniid/without f/{value:g}", {"condition": "noniid", "method": "without f", "lambda": value})
        for value in _SMALL
    ]
    pairs = [*_SCORES.items(), *(("bot-orch", value) for value in LARGE[1:]), *(("frozen", value) for value in LARGE)]
    found += [
        Unit(f"{condition}/{name}/{score:g}", {"condition": condition, "method": name, "lambda": score})
        for condition in _CONDITIONS
        for name, score in pairs
    ]
    return [Unit(unit.key, {**unit.params, "seeds": seeds}) for unit in found]


def run(params: Mapping[str, Any]) -> dict[str, Any]:
    """Net utility at the marks, scored with the method's own lambda, and how much more of the shifted is escalated."""
    condition, name, lambda_ = params["condition"], params["method"], params["lambda"]
    cases = episodes(load_triage(), condition, np.arange(params["seeds"]))
    policy, chooses = _policy(name, condition, lambda_)
    keys = derive_keys(["triage-draw", condition], range(params["seeds"]))
    trace = simulate(policy, cases.stream, keys, lambda_=chooses, source=paper_alignment(cases))
    net = np.cumsum(trace.pick(cases.stream.reward - lambda_ * cases.stream.alignment), axis=0)
    human, shifted = trace.agent == HUMAN, cases.shifted
    rise = (human & shifted).sum(axis=0) / shifted.sum(axis=0) - (human & ~shifted).sum(axis=0) / (~shifted).sum(axis=0)
    metrics = {_metric(mark): net[mark - 1].tolist() for mark in MARKS}
    return {"lambda": lambda_, "metrics": {**metrics, "escalation_rise": rise.tolist()}}


def rows(results: Results) -> list[ResultRow]:
    """One row per method, lambda and mark."""
    found = []
    for key, payload in results.items():
        condition, name, _ = key.split("/")
        found += rows_from_seeds(
            ID,
            f"triage-{condition}",
            "paper",
            method=name,
            lambda_=payload["lambda"],
            metrics=payload["metrics"],
            compare=False,
        )
    return found


def _metric(mark: int) -> str:
    return "net_utility" if mark == MARKS[-1] else f"net_utility_{mark}"


def _policy(name: str, condition: TriageCondition, lambda_: float) -> tuple[Policy, float]:
    """A policy and the lambda it chooses with; without f is Algorithm 1 whatever the condition."""
    if name in ("random", "ucb1"):
        return make_policy(name), 0.0
    if name == "frozen":
        return algorithm_1(alpha=_FROZEN), lambda_
    with_history = condition == "noniid" and name != "without f"
    return (algorithm_2() if with_history else algorithm_1()), 0.0 if name == "no-ot" else lambda_
