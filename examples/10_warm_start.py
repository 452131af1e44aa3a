"""Start from evaluations instead of from nothing; if they are wrong, they are dropped."""

import numpy as np

from bot_orch import Orchestrator, Outcome, Task

AGENTS = {"small": 0.45, "medium": 0.6, "large": 0.8, "person": 0.7}  # share of right answers in traffic


def evaluations(rates: list[float]) -> dict[str, list[float]]:
    """Each agent answered the same 100 questions: 1 where it was right."""
    rng = np.random.default_rng(0)
    return {name: list(map(float, rng.random(100) < rate)) for name, rate in zip(AGENTS, rates, strict=True)}


def right_answers(router: Orchestrator, rounds: int = 150) -> float:
    """Play, and return the share of right answers."""
    rng, total = np.random.default_rng(1), 0.0
    for number in range(rounds):
        decision = router.decide(Task(f"t-{number}"))
        reward = float(rng.random() < AGENTS[decision.agent])
        router.observe(decision.id, Outcome.completed(reward=reward))
        total += reward
    return total / rounds


cold, warm, misled = (Orchestrator(AGENTS, seed=3) for _ in range(3))
warm.learn_from(evaluations([0.45, 0.6, 0.8, 0.7]))  # also: a matrix, a DataFrame, records of an old log; features=
misled.learn_from(evaluations([0.9, 0.6, 0.3, 0.7]), weight=2.0)  # each counts as two outcomes
for name, router in (("cold", cold), ("warm", warm), ("misled", misled)):
    print(f"{name:7}", *(f"{right_answers(router):.2f}" for _ in range(3)), "in rounds 1-150, 151-300, 301-450")
print(warm)
