"""The synthetic experiments: entrants, one run, its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.lab.environments.stream import GivenAlignment
from bot_orch.lab.environments.synthetic.episodes import SyntheticEpisodes, episodes, observed_alignment
from bot_orch.lab.environments.synthetic.settings import COMMON, SETTINGS, Setting
from bot_orch.lab.harness.simulate import Trace, scores, simulate, utility
from bot_orch.lab.harness.tables import published
from bot_orch.policies.base import Policy
from bot_orch.policies.bot import Bot, algorithm_1, algorithm_2
from bot_orch.policies.no_ot import NoOT
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys

PAPER_METHODS = ("bot-orch", "no-ot", "random", "ucb1")
BASELINES = ("thompson-beta", "epsilon-greedy")
WITH_ALIGNMENT = ("ucb1+ot", "thompson-beta+ot", "epsilon-greedy+ot")
LAMBDAS = (0.0, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 5.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0)


@dataclass(frozen=True, slots=True)
class SyntheticEntrant:
    """A policy and its lambda; ``policy`` None is the oracle, which sees every outcome."""

    policy: Policy | None
    lambda_: float


def bot(setting: Setting) -> Bot:
    """BOT-Orch: Algorithm 1 for i.i.d. tasks, Algorithm 2 for the others."""
    algorithm = algorithm_1 if setting.iid else algorithm_2
    return algorithm(alpha=COMMON.alpha, eta=COMMON.eta)


def entrant(name: str, setting: Setting, lambda_: float = COMMON.lambda_) -> SyntheticEntrant:
    """The entrant with that name; ``+ot`` gives a baseline the noisy alignment that BOT-Orch sees."""
    if name == "oracle":
        return SyntheticEntrant(None, lambda_)
    if name == "bot-orch":
        return SyntheticEntrant(bot(setting), lambda_)
    if name == "no-ot":
        return SyntheticEntrant(NoOT(bot(setting).eta, bot(setting).estimator), 0.0)
    base, _, aligned = name.partition("+")
    settings = {"points": 128, "reach": 6.0} if base == "thompson-beta" else {}  # the grid of the recorded tables
    return SyntheticEntrant(make_policy(base, **settings), lambda_ if aligned else 0.0)


def run_synthetic(params: Mapping[str, Any]) -> dict[str, Any]:
    """Run some methods in one environment, all seeds together.

    ``methods`` are names; ``name@2`` is that method with lambda 2. All see the same stream and, where they choose
    alike, draw alike.
    """
    setting, seeds = SETTINGS[params["environment"]], range(params["seeds"])
    runs = episodes(setting, seeds, params.get("rounds"))
    seen = observed_alignment(runs, params.get("reference", "task"))
    keys = derive_keys(["synthetic-draw", setting.name], seeds)
    payload = {}
    for label in params["methods"]:
        name, _, value = label.partition("@")
        chosen = entrant(name, setting, float(value) if value else COMMON.lambda_)
        payload[label] = {"lambda": chosen.lambda_, "metrics": scores(runs, play(chosen, runs, seen, keys=keys))}
    return {"methods": payload}


def play(chosen: SyntheticEntrant, runs: SyntheticEpisodes, seen: Floats, *, keys: Any) -> Trace:
    """Play one entrant; the oracle takes the best realised utility of every round."""
    if chosen.policy is None:
        best: Ints = np.argmax(utility(runs), axis=-1)
        return Trace(best, None)
    return simulate(chosen.policy, runs.stream, keys, lambda_=chosen.lambda_, source=GivenAlignment(seen))


def oracle_level(environment: str, experiment: str = "synthetic") -> tuple[float, float]:
    """The paper's oracle: net utility plus regret of Random, with the spread of Random's net utility."""
    net = published(experiment, environment, "random", lambda_=0.0, metric="net_utility")
    regret = published(experiment, environment, "random", lambda_=0.0, metric="oracle_regret")
    if net is None or regret is None:
        raise LookupError(f"nothing published of random in {environment}")
    return net.mean + regret.mean, net.spread


def ratio(environment: str, metric: str) -> float:
    """The paper's BOT-Orch over its Random."""
    ours = published("synthetic", environment, "bot-orch", lambda_=COMMON.lambda_, metric=metric)
    random = published("synthetic", environment, "random", lambda_=0.0, metric=metric)
    if ours is None or random is None:
        raise LookupError(f"no {metric} is published for {environment}")
    return ours.mean / random.mean
