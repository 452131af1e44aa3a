"""Defer to a person who can take a fifth of the cases: the ones in which the model is unsure."""

import random

from bot_orch import Capacity, Deadline, Orchestrator, Outcome, Task

rng = random.Random(2)  # noqa: S311
router = Orchestrator(
    ["model", "person"],
    n_features=1,
    constraints=[Capacity("person", 0.2), Deadline(seconds=60.0, late=0.15)],
    seed=2,
)
asked, right, unsure_asked, ROUNDS = 0, 0.0, 0.0, 600
for _ in range(ROUNDS):
    confidence = rng.uniform(0.4, 1.0)
    decision = router.decide(Task(features=(confidence,)))
    person = decision.agent == "person"
    correct = rng.random() < (0.95 if person else confidence)
    seconds = rng.expovariate(1 / 30.0) if person else 0.5
    router.observe(decision.id, Outcome.completed(float(correct), elapsed_s=seconds))
    asked, right, unsure_asked = asked + person, right + correct, unsure_asked + person * confidence
print(f"asked in {asked / ROUNDS:.1%} of the cases, at a mean confidence of {unsure_asked / asked:.2f}")
print(f"right in {right / ROUNDS:.1%}; the model alone is right in 70 %")
print({name: round(value, 2) for name, value in router.multipliers().items()})
assert asked / ROUNDS < 1.02 * 0.2
assert unsure_asked / asked < 0.65  # a random fifth has 0.7
