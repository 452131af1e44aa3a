"""A judge that can be fooled: audit a tenth of the decisions, and its bias per agent is subtracted."""

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.rng import generator

JUDGE = {"careful": 0.7, "quick": 0.5, "flatterer": 0.95}  # what the judge gives
TRUTH = {"careful": 0.7, "quick": 0.5, "flatterer": 0.10}  # what the answers are worth

for audit_rate in (0.0, 0.1):
    router, rng = Orchestrator(JUDGE, seed=4, audit_rate=audit_rate), generator("audits")
    earned, flattered = 0.0, 0
    for _ in range(500):
        decision = router.decide(Task())
        u = rng.random()  # one answer, two verdicts
        router.observe(decision.id, Outcome.completed(float(u < JUDGE[decision.agent])))
        good = float(u < TRUTH[decision.agent])
        if decision.audit:  # marked at random: ask an expert, whenever the answer is there
            router.observe(decision.id, Outcome.completed(good), audit=True)
        earned, flattered = earned + good, flattered + (decision.agent == "flatterer")
    print(f"audit_rate {audit_rate:.1f}: {earned / 500:.2f} good answers, {flattered / 500:.0%} to the flatterer")
print(router.derive(Task()).explain())
