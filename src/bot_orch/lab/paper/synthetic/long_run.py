"""Regret over 20 000 rounds: a fixed softmax temperature against schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.environments.stream import GivenAlignment
from bot_orch.lab.environments.synthetic.episodes import SyntheticEpisodes, episodes, observed_alignment
from bot_orch.lab.environments.synthetic.settings import COMMON, SETTINGS
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.paper.synthetic.play import utility
from bot_orch.numerics.estimators import Mean
from bot_orch.numerics.schedules import Constant, LogGrowth, Power
from bot_orch.policies.base import Policy
from bot_orch.policies.boltzmann_gumbel import BoltzmannGumbel
from bot_orch.policies.bot import Bot, algorithm_1
from bot_orch.policies.thompson_beta import ThompsonBeta
from bot_orch.policies.ucb1 import UCB1
from bot_orch.rng import derive_keys

__all__ = ["PANELS", "POLICIES", "checkpoints", "run_long"]

#: With rewards only, outputs are three times as wide: rewards then differ, from 0.29 to 0.14 a round.
SETTING = {"alignment": SETTINGS["iid-g"], "reward": replace(SETTINGS["iid-g"], output_spread=30.0)}
PANELS = {
    "reward": "reward only: regret against the best agent",
    "alignment": "with alignment: regret against the best use of it",
}
_FIXED = algorithm_1(alpha=COMMON.alpha, eta=COMMON.eta)
POLICIES: dict[str, dict[str, Policy]] = {
    "reward": {
        "eta = 1.5, moving average": _FIXED,
        "eta = 10, mean": Bot(Constant(10.0), Mean(prior=2.0)),
        "eta = 1.5 (1 + ln t), mean": Bot(LogGrowth(1.5), Mean(prior=2.0)),
        "eta = sqrt(t), mean": Bot(Power(1.0, 0.5), Mean(prior=2.0)),
        "boltzmann-gumbel": BoltzmannGumbel(),
        "ucb1": UCB1(),
    },
    "alignment": {
        "eta = 1.5, moving average": _FIXED,
        "eta = 1.5, mean": Bot(Constant(1.5), Mean(prior=2.0)),
        "eta = 1.5 (1 + ln t), mean": Bot(LogGrowth(1.5), Mean(prior=2.0)),
        "eta = sqrt(t), mean": Bot(Power(1.0, 0.5), Mean(prior=2.0)),
        "thompson-beta+ot": ThompsonBeta(points=64),
        "ucb1+ot": UCB1(),
    },
}


def checkpoints(rounds: int) -> list[int]:
    """Round numbers at which regret is reported: 50, 100, 200, 500, ..."""
    grid = [m * 10**k for k in range(1, 6) for m in (1, 2, 5)]
    return [n for n in grid if 50 <= n <= rounds]


def run_long(params: Mapping[str, Any]) -> dict[str, Any]:
    """One policy in one panel: cumulative regret at the checkpoints."""
    panel, seeds = params["panel"], range(params["seeds"])
    policy = POLICIES[panel][params["policy"]]
    runs = episodes(SETTING[panel], seeds, params["rounds"])
    keys = derive_keys(["synthetic-long"], seeds)
    seen = observed_alignment(runs)
    lambda_ = COMMON.score_lambda if panel == "alignment" else 0.0
    trace = simulate(policy, runs.stream, keys, lambda_=lambda_, source=GivenAlignment(seen))
    lost = _lost(runs, seen, panel)
    regret = np.cumsum(trace.pick(lost), axis=0)
    at = checkpoints(params["rounds"])
    values = regret[np.array(at) - 1]
    return {"rounds": at, "mean": values.mean(axis=1).tolist(), "final": values[-1].tolist()}


def _lost(runs: SyntheticEpisodes, seen: Floats, panel: str) -> Floats:
    """What choosing each agent loses in each round, in expectation over rewards where no alignment is used.

    With alignment the comparator is the rule a router would reach that knew every agent's mean reward, took the noisy
    alignment at face value and never explored; a policy may do better than it in single rounds.
    """
    r = runs.stream.reward.mean(axis=(0, 1))
    if panel == "reward":
        return np.broadcast_to(r.max() - r, runs.stream.reward.shape)
    u = utility(runs)
    best = np.argmax(r - COMMON.score_lambda * seen, axis=-1)
    lost: Floats = np.take_along_axis(u, best[..., None], axis=-1) - u
    return lost
