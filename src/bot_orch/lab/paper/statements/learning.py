"""Sentences about learning, and the runs that no table of the paper needs and they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bot_orch.lab.environments.triage import HUMAN, TriageCondition, episodes, load_triage, paper_alignment
from bot_orch.lab.harness.experiment import Results, Scale, Unit
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.harness.tables import ResultRow, rows_from_seeds
from bot_orch.lab.paper.statements.evidence import Evidence, Finding, Judgement, judged, z_score
from bot_orch.policies.base import Policy
from bot_orch.policies.bot import algorithm_1, algorithm_2
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys

ID = "claims"
#: Rounds at which cumulative net utility is taken: a quarter, the shift, the end.
MARKS = (28, 57, 114)
_CONDITIONS: tuple[TriageCondition, ...] = ("iid", "noniid")
_ENVIRONMENTS = ("triage-iid", "triage-noniid")
_SMALL = (0.0, 0.5, 1.0, 1.25)
#: Lambdas at which BOT-Orch is compared with itself without learning.
LARGE = (3.0, 5.0, 10.0)
_FROZEN = 1.0 - 1e-12  # the largest alpha: rhat stays at zero
_SCORES = {"bot-orch": 3.0, "no-ot": 0.0, "random": 2.0, "ucb1": 2.0}  # each method's own lambda, as in the tables


def units(scale: Scale) -> list[Unit]:
    """Small lambdas without f, the four methods, and large lambdas with and without learning."""
    seeds = scale.n_seeds()
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
    for key, p in results.items():
        condition, name, _ = key.split("/")
        played = {"method": name, "lambda_": p["lambda"], "metrics": p["metrics"]}
        found += rows_from_seeds(ID, f"triage-{condition}", "paper", **played, compare=False)
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


def separates(e: Evidence) -> Judgement:
    """Ahead of every baseline by two standard errors at a quarter of the rounds, and by more at the end."""
    parts, said = [], []
    for condition in _ENVIRONMENTS:
        leads = []
        for mark in MARKS:
            bot, *others = (e.get(ID, condition, m, metric=_metric(mark), lambda_=v) for m, v in _SCORES.items())
            closest = min(others, key=lambda other: bot.mean - other.mean)
            leads.append((bot.mean - closest.mean, z_score(bot, closest)))
        parts += [leads[0][1] > 2.0, leads[-1][0] > leads[0][0]]
        shown = ", ".join(f"{mark}: {lead:+.1f} (z {z:.1f})" for mark, (lead, z) in zip(MARKS, leads, strict=True))
        said.append(f"{condition} {shown}")
    return Judgement(judged(parts), f"Lead over the closest baseline by round: {'; '.join(said)}.")


def _worth(e: Evidence, condition: str, value: float) -> tuple[float, float]:
    """The effect of learning on net utility, and its z score."""
    learned, frozen = (e.get(ID, condition, m, metric="net_utility", lambda_=value) for m in ("bot-orch", "frozen"))
    return learned.mean - frozen.mean, z_score(learned, frozen)


def _said(e: Evidence) -> str:
    parts = []
    for condition in _ENVIRONMENTS:
        shown = ", ".join("{:g} {:+.2f} (z {:+.1f})".format(v, *_worth(e, condition, v)) for v in LARGE)
        parts.append(f"{condition} {shown}")
    return f"Net utility with learning minus without, by lambda: {'; '.join(parts)}."


def ignores_history(e: Evidence) -> Judgement:
    """At lambda 5 and 10 learning makes no difference beyond the error."""
    scores = [_worth(e, condition, value)[1] for condition in _ENVIRONMENTS for value in LARGE[1:]]
    return Judgement(judged(abs(z) < 2.0 for z in scores), _said(e))


def both_contribute(e: Evidence) -> Judgement:
    """At lambda 3 learning adds net utility beyond the error, at 5 and 10 it does not."""
    parts = [_worth(e, condition, LARGE[0])[1] > 2.0 for condition in _ENVIRONMENTS]
    later = [_worth(e, condition, value)[1] > 2.0 for condition in _ENVIRONMENTS for value in LARGE[1:]]
    finding = Finding.FAILS if not any(parts) else judged([*parts, not any(later)])
    return Judgement(finding, _said(e))


def adaptation(e: Evidence) -> Judgement:
    """Escalation rises more after the shift than it does without any learning."""
    learned, frozen = (
        e.get(ID, "triage-noniid", m, metric="escalation_rise", lambda_=LARGE[0]) for m in ("bot-orch", "frozen")
    )
    z = z_score(learned, frozen)
    finding = Finding.HOLDS if z > 2.0 else Finding.FAILS
    return Judgement(finding, f"Rise {learned.mean:+.3f} with learning, {frozen.mean:+.3f} without; z {z:+.1f}.")
