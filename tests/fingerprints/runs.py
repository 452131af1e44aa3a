"""Run a case and write down what it did."""

import zlib
from typing import Any

import numpy as np
from cases import CASES, Case
from worlds import ADDED, AGENTS, REMOVED, ROUNDS, Round, world

from bot_orch import Decision, Orchestrator, Outcome, Task

EVERY = 10
TERMS = ("estimate", "exploration", "distance", "alignment", "cost")


def run(name: str) -> dict[str, Any]:
    """What the orchestrator of a case decides in its world, and what it believes at the end."""
    case, seed = CASES[name], zlib.crc32(name.encode())
    router, rounds = case.build(seed), world(seed, case.kind, case.n_features, references=case.references)
    due: dict[int, list[tuple[Decision, Round]]] = {}
    decisions = [play(case, router, rounds, due, t) for t in range(ROUNDS)]
    last = router.derive(Task("last", features=rounds[0].task.features, reference=rounds[0].task.reference))
    return {
        "chosen": "".join(decision.agent for decision in decisions),
        "propensity": [_number(decision.propensity) for decision in decisions[::EVERY]],
        "distance": [_number(_own(decision, decision.terms.distance)) for decision in decisions[::EVERY]],
        "lambda": [_number(decision.lambda_) for decision in decisions[::EVERY]],
        "agents": list(last.agents),
        "last_propensities": _numbers(last.propensities),
        "last_terms": {term: _numbers(getattr(last.terms, term)) for term in TERMS},
        "pending": len(router.pending),
        "alarms": router.drift_alarms(),
        "state": router.fingerprint(),
    }


def play(
    case: Case, router: Orchestrator, rounds: list[Round], due: dict[int, list[tuple[Decision, Round]]], t: int
) -> Decision:
    """Decide in round ``t`` and learn what is due by then."""
    if case.roster and t == ADDED:
        router.add_agent(case.agent("d"))
    if case.roster and t == REMOVED:
        router.remove_agent("b")
    now = rounds[t]
    decision = router.decide(now.task, now.eligible)
    due.setdefault(t + now.delay, []).append((decision, now))
    for owed, then in due.pop(t, ()):
        _learn(case, router, owed, then)
    return decision


def _learn(case: Case, router: Orchestrator, decision: Decision, then: Round) -> None:
    if case.full:
        rewards = {name: _reward(then.outcomes[name]) for name in router.agents}
        router.observe_all(decision.id, rewards)
        return
    router.observe(decision.id, then.outcomes[decision.agent])


def _reward(outcome: Outcome) -> float:
    return 0.0 if outcome.reward is None else outcome.reward


def _own(decision: Decision, values: np.ndarray) -> float:
    return float(values[decision.agents.index(decision.agent)])


def _number(value: float) -> float | str:
    return float(f"{value:.12g}") if np.isfinite(value) else str(float(value))


def _numbers(values: np.ndarray) -> list[float | str]:
    return [_number(float(value)) for value in values]


__all__ = ["AGENTS", "play", "run"]
