"""Delegation to two agents: ask a second one, pay for both, take one answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.lab.environments.stream import GivenAlignment
from bot_orch.lab.environments.synthetic.episodes import SyntheticEpisodes, episodes, observed_alignment
from bot_orch.lab.environments.synthetic.settings import COMMON, ENVIRONMENTS
from bot_orch.lab.harness.simulate import Trace, simulate
from bot_orch.policies.bot import algorithm_1, algorithm_2
from bot_orch.rng import derive_keys, uniform

__all__ = ["PRICES", "RULES", "run_committee", "taken"]

#: Who answers: one agent; of two the first to complete, the one seen as better aligned, the better one (a judge who is
#: never wrong), each with the second best aligned agent; and the better one of a random second.
RULES = ("one agent", "first to complete", "aligned", "better", "better of a random second")
#: Price of one call in units of reward.
PRICES = (0.0, 0.02, 0.05, 0.1, 0.2)


def taken(rule: str, pair: tuple[Ints, Ints], runs: SyntheticEpisodes, *, seen: Floats) -> Ints:
    """Index of the agent whose answer is taken, ``(T, seeds)``."""
    first, second = pair
    if rule == "one agent":
        return first
    if rule.startswith("better"):
        value, sign = runs.stream.reward, -1.0
    elif rule == "aligned":
        value, sign = seen, 1.0
    else:
        value, sign = np.where(runs.event, runs.time_s, np.inf), 1.0
    one, two = (sign * Trace(agent, None).pick(value) for agent in pair)
    return np.where(two < one, second, first)


def run_committee(params: Mapping[str, Any]) -> dict[str, Any]:
    """BOT-Orch chooses the first agent and learns from it alone; the second is the best aligned of the others."""
    setting, seeds = ENVIRONMENTS[params["environment"]], range(params["seeds"])
    runs = episodes(setting, seeds)
    seen = observed_alignment(runs)
    bot = (algorithm_1 if setting.iid else algorithm_2)(alpha=COMMON.alpha, eta=COMMON.eta)
    keys = derive_keys(["synthetic-draw", setting.name], seeds)
    first = simulate(bot, runs.stream, keys, lambda_=COMMON.lambda_, source=GivenAlignment(seen)).agent
    agents = np.arange(seen.shape[-1])
    others = np.where(agents == first[..., None], np.inf, seen)
    nearest = np.argmin(others, axis=-1)
    draw = np.stack([uniform(derive_keys(["committee", setting.name], seeds), t) for t in range(len(first))])
    anyone = (first + 1 + (draw * (agents.size - 1)).astype(np.int64)) % agents.size
    found = {}
    for rule in RULES:
        pair = (first, anyone if rule.endswith("random second") else nearest)
        who = Trace(taken(rule, pair, runs, seen=seen), None)
        reward, cost = who.pick(runs.stream.reward), who.pick(runs.stream.alignment)
        paid = cost if rule == "one agent" else sum(Trace(agent, None).pick(runs.stream.alignment) for agent in pair)
        calls = 1 if rule == "one agent" else 2
        found[rule] = {
            "reward": reward.mean(axis=0).tolist(),
            "net_of_taken": (reward - COMMON.score_lambda * cost).mean(axis=0).tolist(),
            "net_of_both": (reward - COMMON.score_lambda * np.asarray(paid)).mean(axis=0).tolist(),
            **{f"after_price_{price:g}": (reward - price * calls).mean(axis=0).tolist() for price in PRICES},
        }
    return found
