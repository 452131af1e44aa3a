"""Route prompts to two models on a budget: hard prompts to the large model, half a cent per prompt on average."""

import random

from bot_orch import Agent, Budget, Orchestrator, Outcome, Task

EASY = ["translate to French: good morning", "capital of Italy?", "spell the word necessary"]
HARD = ["prove that the square root of two is irrational", "prove that there are infinitely many primes"]
BUDGET_USD, ROUNDS = 0.005, 600

rng = random.Random(1)  # noqa: S311
router = Orchestrator(
    [Agent("small", price=0.001), Agent("large", price=0.015)],  # dollars per call; the rest is learned
    constraints=[Budget(BUDGET_USD)],
    seed=1,
)
spent, earned, large_on_hard = 0.0, 0.0, 0
for _ in range(ROUNDS):
    hard = rng.random() < 0.25
    text = rng.choice(HARD if hard else EASY)
    decision = router.decide(Task(text=text))
    large = decision.agent == "large"
    reward = 0.9 if large or not hard else 0.2
    usd = (0.015 if large else 0.001) * rng.uniform(0.7, 1.3)
    router.observe(decision.id, Outcome.completed(reward, cost_usd=usd))
    spent, earned, large_on_hard = spent + usd, earned + reward, large_on_hard + (large and hard)
print(f"{spent / ROUNDS:.4f} dollars per prompt, budget {BUDGET_USD}; mean reward {earned / ROUNDS:.2f}")
print(f"hard prompts answered by the large model: {large_on_hard / (0.25 * ROUNDS):.0%}")
print(decision.explain())
assert spent / ROUNDS < 1.02 * BUDGET_USD
assert earned / ROUNDS > 0.82  # a blind mix of the two models at this budget earns 0.775
