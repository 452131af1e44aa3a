"""The triage experiment: entrants, protocols, one run, its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.environments.triage import (
    HUMAN,
    PAPER_SPLIT,
    DeployableAlignment,
    TriageCondition,
    TriageEpisodes,
    episodes,
    load_triage,
    paper_alignment,
    stated_claims,
)
from bot_orch.lab.harness.simulate import Trace, simulate, triage_scores
from bot_orch.numerics.estimators import Mean
from bot_orch.numerics.schedules import Constant
from bot_orch.policies.base import Policy
from bot_orch.policies.bot import Bot, algorithm_1, algorithm_2
from bot_orch.policies.no_ot import NoOT
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys

CONDITIONS: tuple[TriageCondition, ...] = ("iid", "noniid")
PROTOCOLS = ("paper", "deployable")
LAMBDA = 3.0
LAMBDAS = (0.0, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 5.0, 10.0)
WINDOW = 8
PAPER_METHODS = ("bot-orch", "no-ot", "random", "ucb1")
BASELINES = ("thompson-beta", "epsilon-greedy")
_WITH_ALIGNMENT = ("ucb1+ot", "thompson-beta+ot")


@dataclass(frozen=True, slots=True)
class TriageEntrant:
    """A policy, its lambda, and the lambda of the net utility that scores it."""

    policy: Policy
    lambda_: float
    score_lambda: float


def entrant(name: str, condition: TriageCondition, protocol: str, *, lambda_: float = LAMBDA) -> TriageEntrant:
    """The entrant of that name.

    Under ``paper``, BOT-Orch runs with the paper's constants and is scored with its own lambda, No-OT with 0, the
    others with 2, which is what the paper's tables amount to. Under ``deployable`` everyone is scored with the same
    lambda; BOT-Orch uses a running mean (an EMA from zero underrates agents tried late) and an inverse temperature
    at which a gap of five points in error probability decides 95 to 5: log(20) / (3 * 0.05) = 20.
    ``bot-orch-paper-constants`` keeps the paper's EMA and temperature.
    """
    score = 2.0 if protocol == "paper" else LAMBDA
    paper_bot = algorithm_1() if condition == "iid" else algorithm_2()
    if name == "bot-orch-paper-constants":
        return TriageEntrant(paper_bot, lambda_, lambda_ if protocol == "paper" else score)
    if name == "bot-orch":
        bot = paper_bot if protocol == "paper" else Bot(Constant(20.0), Mean(prior=2.0))
        return TriageEntrant(bot, lambda_, lambda_ if protocol == "paper" else score)
    if name == "no-ot":
        return TriageEntrant(NoOT(paper_bot.eta, paper_bot.estimator), 0.0, 0.0 if protocol == "paper" else score)
    base, _, aligned = name.partition("+")
    settings = {"points": 128, "reach": 6.0} if base == "thompson-beta" else {}  # the grid of the recorded tables
    return TriageEntrant(make_policy(base, **settings), lambda_ if aligned else 0.0, score)


def methods(protocol: str) -> tuple[str, ...]:
    """Names of the methods that run under a protocol."""
    if protocol == "paper":
        return PAPER_METHODS + BASELINES
    return (*PAPER_METHODS, "bot-orch-paper-constants", *BASELINES, *_WITH_ALIGNMENT)


def run_triage(params: Mapping[str, Any]) -> dict[str, Any]:
    """Run one method in one condition under one protocol, all seeds together."""
    condition, protocol = params["condition"], params["protocol"]
    data = load_triage(params.get("split", PAPER_SPLIT))
    cases = episodes(data, condition, np.arange(params["seeds"]))
    chosen = entrant(params["method"], condition, protocol, lambda_=params.get("lambda", LAMBDA))
    source = paper_alignment(cases) if protocol == "paper" else DeployableAlignment(data, cases)
    stream = cases.stream if protocol == "paper" else replace(cases.stream, claims=stated_claims(data, cases))
    keys = derive_keys(["triage-draw", condition], range(params["seeds"]))
    trace = simulate(chosen.policy, stream, keys, lambda_=chosen.lambda_, source=source)
    payload: dict[str, Any] = {"metrics": triage_scores(cases, trace, chosen.score_lambda), "lambda": chosen.lambda_}
    if params.get("curves"):
        payload["curves"] = _curves(cases, trace, chosen.score_lambda)
    return payload


def _curves(cases: TriageEpisodes, trace: Trace, score_lambda: float) -> dict[str, dict[str, list[float]]]:
    utility = cases.stream.reward - score_lambda * cases.stream.alignment
    earned = trace.pick(utility)
    human = (trace.agent == HUMAN).astype(float)
    padded = np.vstack([np.zeros((1, human.shape[1])), human.cumsum(axis=0)])
    rounds = np.arange(1, len(padded))
    start = np.maximum(rounds - WINDOW, 0)
    rolling = (padded[rounds] - padded[start]) / (rounds - start)[:, None]
    return {
        "net_utility": _mean_std(earned.cumsum(axis=0)),
        "oracle_regret": _mean_std((utility.max(axis=-1) - earned).cumsum(axis=0)),
        "escalation": _mean_std(rolling),
    }


def _mean_std(values: Floats) -> dict[str, list[float]]:
    spread = values.std(axis=1, ddof=1) if values.shape[1] > 1 else np.zeros(len(values))
    return {"mean": values.mean(axis=1).tolist(), "std": spread.tolist()}
