"""From a log to the value of another policy: collect what was logged, ask the target what it would have done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import InvalidInputError
from bot_orch.eventlog.events import Configured, DecisionMade, FeedbackGiven
from bot_orch.eventlog.log import Log
from bot_orch.eventlog.offpolicy import Estimate, Logged, evaluate
from bot_orch.types import Outcome

__all__ = ["Evaluation", "Rounds", "collect", "evaluate_log"]


@dataclass(frozen=True, slots=True)
class Rounds:
    """Decisions of one set of agents with the last reward given for each, and those still without one."""

    agents: tuple[str, ...]
    made: list[DecisionMade]
    rewards: dict[str, float]

    @property
    def missing(self) -> int:
        """Decisions without a reward."""
        return len(self.made) - len(self.rewards)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Estimates for a target, beside what the log itself earned."""

    target: str
    decisions: int
    missing: int
    logged_mean: float
    estimates: tuple[Estimate, ...]


def collect(log: Log) -> Rounds:
    """Decisions since the set of agents last changed; a revised reward replaces the earlier one."""
    made: list[DecisionMade] = []
    rewards: dict[str, float] = {}
    for row in log.read():
        event = row.event()
        if isinstance(event, DecisionMade):
            if made and event.agents != made[-1].agents:
                made = []
            made.append(event)
        elif isinstance(event, FeedbackGiven) and event.reward is not None:
            rewards[event.decision_id] = event.reward
    if not made:
        raise InvalidInputError("log", "holds no decision", "pass the log of a service that has decided something")
    known = {event.id for event in made}
    return Rounds(made[-1].agents, made, {key: value for key, value in rewards.items() if key in known})


def evaluate_log(
    log: Log, target: str, *, confidence: float = 0.95, min_effective: float = 50.0, max_missing: float = 0.5
) -> Evaluation:
    """The value of ``target``: a policy's name, ``agent:NAME`` (always that one) or ``uniform``.

    A policy learns while it goes through the log, from the rewards the log holds; its probabilities for a decision
    depend on earlier rows only, so the estimates stay valid.
    """
    rounds = collect(log)
    if rounds.missing > max_missing * len(rounds.made):
        raise InvalidInputError(
            "log",
            f"{rounds.missing} of {len(rounds.made)} decisions have no reward",
            "send feedback for more decisions, or raise --max-missing if silence does not depend on the outcome",
        )
    probabilities = _target(log, rounds, target)
    keep = [index for index, event in enumerate(rounds.made) if event.id in rounds.rewards]
    events = [rounds.made[index] for index in keep]
    width = max((len(event.task.features) for event in events), default=0)
    features = np.array([_padded(event, width) for event in events]).reshape(len(events), width)
    logged = Logged(
        np.array([event.agents.index(event.agent) for event in events], dtype=np.int64),
        np.array([rounds.rewards[event.id] for event in events]),
        np.array([event.table()[0] for event in events]).reshape(len(events), len(rounds.agents)),
        features,
    )
    mean = float(logged.reward.mean()) if len(logged) else float("nan")
    estimates = evaluate(logged, probabilities[keep], confidence=confidence, min_effective=min_effective)
    return Evaluation(target, len(logged), rounds.missing, mean, estimates)


def _padded(event: DecisionMade, width: int) -> list[float]:
    values = list(event.task.features)
    return values + [0.0] * (width - len(values))


def _target(log: Log, rounds: Rounds, target: str) -> Floats:
    masks = np.array([[name in (e.eligible or e.agents) for name in e.agents] for e in rounds.made], dtype=float)
    uniform: Floats = masks / masks.sum(axis=1, keepdims=True)
    if target == "uniform":
        return uniform
    if target.startswith("agent:"):
        name = target.removeprefix("agent:")
        if name not in rounds.agents:
            raise InvalidInputError("target", f"agent {name!r} is not in the log", f"choose from {rounds.agents}")
        allowed = masks[:, rounds.agents.index(name)] > 0  # elsewhere, anybody who may be chosen
        uniform[allowed] = [float(each == name) for each in rounds.agents]
        return uniform
    return _learning_target(log, rounds, target)


def _learning_target(log: Log, rounds: Rounds, policy: str) -> Floats:
    first = next((row.event() for row in log.read() if row.kind.startswith("configured")), None)
    settings = Orchestrator.from_json(first.document) if isinstance(first, Configured) else None
    router = Orchestrator(
        rounds.agents,
        policy,
        lambda_=settings.lambda_ if settings else 1.0,
        seed=settings.seed if settings else 0,
        n_features=settings.n_features if settings else 0,
    )
    table = np.zeros((len(rounds.made), len(rounds.agents)))
    for index, event in enumerate(rounds.made):
        decision = router.decide(event.task.task(), event.eligible)
        table[index] = decision.propensities
        reward = rounds.rewards.get(event.id)
        if (
            decision.agent == event.agent and reward is not None
        ):  # rejection sampling: it learns what it would have seen
            router.observe(decision.id, Outcome.completed(reward))
        else:
            router.observe(decision.id, Outcome.censored(elapsed_s=0.0, reason="not_applicable"))
    return table
