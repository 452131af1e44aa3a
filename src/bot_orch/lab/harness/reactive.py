"""The reactive tasks as an environment: play a policy, score it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot_orch.lab.environments.contract import Environment, Metrics, Options, Trial
from bot_orch.lab.environments.reactive import CHANCE, DISTANCE, ReactiveTasks
from bot_orch.lab.harness.simulate import Trace, simulate
from bot_orch.policies.base import Policy
from bot_orch.rng import derive_keys

__all__ = ["ReactiveEnvironment", "reactive_scores"]


@dataclass(frozen=True)
class ReactiveEnvironment(Environment):
    """Tasks that come back when they failed."""

    options: Mapping[str, Any] = field(default_factory=lambda: {"returns": 0.8, "noise": 0.5})

    def rounds(self, settings: Options) -> int:
        """A thousand."""
        return 1000

    def aligned(self, settings: Options) -> bool:
        """True."""
        return True

    def play(self, policy: Policy, settings: Options, trial: Trial) -> Metrics:
        """Simulate and score with ``score_lambda``."""
        tasks = ReactiveTasks(trial.seeds, trial.rounds, **{**self.options, **settings})
        keys = derive_keys(["reactive-draw"], trial.seeds)
        trace = simulate(policy, tasks.stream, keys, lambda_=trial.lambda_, source=tasks)
        return reactive_scores(tasks, trace, trial.score_lambda)


def reactive_scores(tasks: ReactiveTasks, trace: Trace, score_lambda: float) -> Metrics:
    """Per-round means, one value per seed; regret is to the best agent given the task, in expectation."""
    expected = (CHANCE - score_lambda * DISTANCE)[tasks.kind]
    reward, cost = trace.pick(tasks.stream.reward), trace.pick(tasks.stream.alignment)
    return {
        "reward": reward.mean(axis=0).tolist(),
        "alignment_cost": cost.mean(axis=0).tolist(),
        "net_utility": (reward - score_lambda * cost).mean(axis=0).tolist(),
        "regret": (expected.max(axis=-1) - trace.pick(expected)).mean(axis=0).tolist(),
        "returned": tasks.returned.mean(axis=0).tolist(),
    }
